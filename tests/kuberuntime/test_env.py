"""Environment variables (VOL-20 to VOL-26)."""

import pytest

from kubelet_emu.api.quantity import Quantity
from kubelet_emu.api.types import (
    ConfigMapEnvSource,
    ConfigMapKeySelector,
    Container,
    EnvFromSource,
    EnvVar,
    EnvVarSource,
    FileKeySelector,
    ObjectFieldSelector,
    ObjectMeta,
    Pod,
    PodSpec,
    ResourceFieldSelector,
    ResourceRequirements,
    SecretEnvSource,
    SecretKeySelector,
)
from kubelet_emu.kuberuntime import env
from kubelet_emu.kuberuntime.env import ConfigError, EnvContext, EnvSources
from kubelet_emu.kuberuntime.seams import ServiceInfo, ServicePort

POD = Pod(
    metadata=ObjectMeta(name="p", namespace="n", uid="u", labels={"app": "x"}, annotations={"a/b": "y"}),
    spec=PodSpec(enable_service_links=True, node_name="node-1"),
)
EXPANSIONS = [
    ("$(A)", "1"),
    ("$(A)$(B)", "12"),
    ("$$(A)", "$(A)"),
    ("$$$(A)", "$1"),
    ("$(MISSING)", "$(MISSING)"),
    ("$(A", "$(A"),
    ("$A", "$A"),
    ("a$", "a$"),
    ("$$", "$"),
    ("$()", "$()"),
]


@pytest.mark.parametrize(("text", "expected"), EXPANSIONS)
def test_vol_22_expansion(text, expected):
    assert env.expand(text, {"A": "1", "B": "2"}.get) == expected


def build(container, *, sources=None, **context):
    return env.build_env(POD, container, sources or EnvSources(), EnvContext(**context))


def var(name, value=None, **origin):
    return EnvVar(name=name, value=value, value_from=EnvVarSource(**origin) if origin else None)


def test_vol_21_order_and_override():
    container = Container(
        name="c",
        env_from=(
            EnvFromSource(config_map_ref=ConfigMapEnvSource(name="m"), prefix="P_"),
            EnvFromSource(secret_ref=SecretEnvSource(name="s")),
        ),
        env=(var("A", "$(P_K)-$(S)"), var("S", "own"), var("EMPTY")),
    )
    sources = EnvSources({"m": {"K": "k"}}, {"s": {"S": b"secret"}})
    assert build(container, sources=sources) == {"P_K": "k", "S": "own", "A": "k-secret", "EMPTY": ""}


KEY = {"key": "k"}
OPTIONAL = {"key": "k", "optional": True}
FAILURES = [
    pytest.param(
        var("A", config_map_key_ref=ConfigMapKeySelector(name="gone", **KEY)), 'configmap "gone" not found'
    ),
    pytest.param(var("A", secret_key_ref=SecretKeySelector(name="gone", **KEY)), 'secret "gone" not found'),
    pytest.param(
        var("A", config_map_key_ref=ConfigMapKeySelector(name="m", **KEY)),
        "couldn't find key k in ConfigMap n/m",
    ),
    pytest.param(
        var("A", secret_key_ref=SecretKeySelector(name="s", **KEY)), "couldn't find key k in Secret n/s"
    ),
    pytest.param(
        var("A", file_key_ref=FileKeySelector(volume_name="v", path="f", key="k")),
        'environment variable key "k" not found in file "f"',
    ),
    pytest.param(
        var("A", field_ref=ObjectFieldSelector(field_path="spec.x")), "unsupported fieldPath: spec.x"
    ),
]


@pytest.mark.parametrize(("variable", "text"), FAILURES)
def test_vol_24_failures(variable, text):
    sources = EnvSources({"m": {}}, {"s": {}}, {("v", "f"): b"other=1"})
    with pytest.raises(ConfigError) as error:
        build(Container(name="c", env=(variable,)), sources=sources)
    assert str(error.value) == text


def test_vol_23_optional_sources_are_skipped():
    container = Container(
        name="c",
        env=(
            var("A", config_map_key_ref=ConfigMapKeySelector(name="gone", **OPTIONAL)),
            var("B", secret_key_ref=SecretKeySelector(name="s", **OPTIONAL)),
        ),
        env_from=(EnvFromSource(config_map_ref=ConfigMapEnvSource(name="gone", optional=True)),),
    )
    assert build(container, sources=EnvSources(secrets={"s": {}})) == {}


def test_vol_24_service_links_unset_and_services_unread():
    container = Container(name="c")
    with pytest.raises(ConfigError, match=r"nil pod\.spec\.enableServiceLinks"):
        env.build_env(Pod(), container, EnvSources(), EnvContext())
    with pytest.raises(ConfigError, match="services have not yet been read"):
        build(container, services=None)


FIELDS = [
    ("metadata.name", "p"),
    ("metadata.namespace", "n"),
    ("metadata.uid", "u"),
    ("metadata.labels['app']", "x"),
    ("metadata.annotations['a/b']", "y"),
    ("spec.nodeName", "node-1"),
    ("status.hostIP", "192.0.2.1"),
    ("status.podIP", "10.0.0.1"),
    ("status.podIPs", "10.0.0.1,fd00::1"),
]


@pytest.mark.parametrize(("path", "expected"), FIELDS)
def test_vol_25_fields(path, expected):
    container = Container(name="c", env=(var("A", field_ref=ObjectFieldSelector(field_path=path)),))
    context = {"pod_ips": ("10.0.0.1", "fd00::1"), "host_ips": ("192.0.2.1",)}
    assert build(container, **context) == {"A": expected}


RESOURCES = [
    ("limits.cpu", "", "1"),
    ("limits.cpu", "1m", "500"),
    ("requests.cpu", "1m", "250"),
    ("limits.memory", "1Mi", "64"),
    ("limits.ephemeral-storage", "1Gi", "7"),
    ("requests.memory", "", "0"),
]


@pytest.mark.parametrize(("resource", "divisor", "expected"), RESOURCES)
def test_vol_25_resources(resource, divisor, expected):
    ref = ResourceFieldSelector(resource=resource, divisor=Quantity.parse(divisor or "0"))
    container = Container(
        name="c",
        resources=ResourceRequirements(
            limits={"cpu": Quantity.parse("500m"), "memory": Quantity.parse("64Mi")},
            requests={"cpu": Quantity.parse("250m")},
        ),
        env=(var("A", resource_field_ref=ref),),
    )
    allocatable = {"ephemeral-storage": Quantity.parse("7Gi")}
    assert build(container, allocatable=allocatable) == {"A": expected}


def test_vol_26_services():
    services = (
        ServiceInfo("kubernetes", "default", "10.96.0.1", (ServicePort("https", 443),)),
        ServiceInfo("my-db", "n", "10.96.0.2", (ServicePort("", 5432),)),
        ServiceInfo("headless", "n", "None", ()),
        ServiceInfo("other", "elsewhere", "10.96.0.3", (ServicePort("", 1),)),
    )
    assert env.service_env(services, "n", links=True) == {
        "KUBERNETES_SERVICE_HOST": "10.96.0.1",
        "KUBERNETES_SERVICE_PORT": "443",
        "KUBERNETES_SERVICE_PORT_HTTPS": "443",
        "KUBERNETES_PORT": "tcp://10.96.0.1:443",
        "KUBERNETES_PORT_443_TCP": "tcp://10.96.0.1:443",
        "KUBERNETES_PORT_443_TCP_PROTO": "tcp",
        "KUBERNETES_PORT_443_TCP_PORT": "443",
        "KUBERNETES_PORT_443_TCP_ADDR": "10.96.0.1",
        "MY_DB_SERVICE_HOST": "10.96.0.2",
        "MY_DB_SERVICE_PORT": "5432",
        "MY_DB_PORT": "tcp://10.96.0.2:5432",
        "MY_DB_PORT_5432_TCP": "tcp://10.96.0.2:5432",
        "MY_DB_PORT_5432_TCP_PROTO": "tcp",
        "MY_DB_PORT_5432_TCP_PORT": "5432",
        "MY_DB_PORT_5432_TCP_ADDR": "10.96.0.2",
    }
    assert "MY_DB_SERVICE_HOST" not in env.service_env(services, "n", links=False)


def test_env_files_take_plain_and_quoted_values():
    assert env.parse_env_file(b"# c\nA=1\nB='two words'\n\n") == {"A": "1", "B": "two words"}
    with pytest.raises(ConfigError, match="couldn't parse env file"):
        env.parse_env_file(b"nonsense\n")
