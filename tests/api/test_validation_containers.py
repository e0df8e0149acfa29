"""How errors read, and validation of containers: API-230 and sections 5 and 8 to 12."""

import pytest

from kubelet_emu.api.field_errors import (
    EnumText,
    aggregate,
    causes,
    forbidden,
    go_quote,
    internal,
    invalid,
    invalid_message,
    kubectl_message,
    not_supported,
    render_value,
    required,
    too_long,
    too_many,
)
from kubelet_emu.api.types import Container
from kubelet_emu.api.validation import Options, validate_pod_create

C0 = "spec.containers[0]"


def test_rendering_api_040_041():
    assert invalid("a.b", 5, "must be 1").text == "a.b: Invalid value: 5: must be 1"
    assert required("a").text == "a: Required value"
    assert required("a", "why").text == "a: Required value: why"
    assert too_many("a", 21, 20).text == "a: Too many: 21: must have at most 20 items"
    assert too_long("a", 64).text == "a: Too long: may not be more than 64 bytes"
    assert internal("a", "x").text == "a: Internal error: x"
    assert forbidden("", "static pods do not support x").text == ": Forbidden: static pods do not support x"
    assert not_supported("a", "x", ("B", "A")).message == 'Unsupported value: "x": supported values: "B", "A"'
    assert render_value(None) == "null"
    assert render_value(True) == "true"
    assert render_value('a"\n\x01é\u200b') == '"a\\"\\n\\x01é\\u200b"'
    assert render_value(EnumText("<&>")) == '"\\u003c\\u0026\\u003e"'
    assert render_value({"b": (1, "<"), "a": Container(name="x")}) == (
        '{"a":{"name":"x","resources":{}},"b":[1,"\\u003c"]}'
    )
    assert go_quote("\U0001f600\x7f") == '"😀\\x7f"'


def test_several_errors_api_045_046_047():
    errors = (required("spec.containers"), invalid("a", "x", "bad"), required("spec.containers"))
    assert aggregate(errors) == '[spec.containers: Required value, a: Invalid value: "x": bad]'
    assert aggregate(errors[:1]) == "spec.containers: Required value"
    assert (
        invalid_message("Pod", "web", errors[:1]) == 'Pod "web" is invalid: spec.containers: Required value'
    )
    assert causes(errors[1:2]) == [
        {"reason": "FieldValueInvalid", "message": 'Invalid value: "x": bad', "field": "a"}
    ]
    assert kubectl_message("Pod", "web", errors[:1]) == (
        'The Pod "web" is invalid: spec.containers: Required value'
    )
    assert kubectl_message("Pod", "web", errors[:2]) == (
        'The Pod "web" is invalid: \n* spec.containers: Required value\n* a: Invalid value: "x": bad'
    )


def test_a_plain_pod_is_valid(a_pod):
    assert validate_pod_create(a_pod()) == ()


def test_no_containers_api_063(a_pod, texts):
    assert texts(validate_pod_create(a_pod(containers=[]))) == ["spec.containers: Required value"]


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        pytest.param({"name": ""}, [f"{C0}.name: Required value"], id="API-070-name"),
        pytest.param({"image": ""}, [f"{C0}.image: Required value"], id="API-070-image"),
        pytest.param(
            {"image": " a"},
            [f'{C0}.image: Invalid value: " a": must not have leading or trailing whitespace'],
            id="API-070-blank",
        ),
        pytest.param(
            {"imagePullPolicy": "x"},
            [
                f'{C0}.imagePullPolicy: Unsupported value: "x": '
                'supported values: "Always", "IfNotPresent", "Never"'
            ],
            id="API-070-pull-policy",
        ),
        pytest.param(
            {"terminationMessagePolicy": "x"},
            [
                f'{C0}.terminationMessagePolicy: Unsupported value: "x": '
                'supported values: "File", "FallbackToLogsOnError"'
            ],
            id="API-070-message-policy",
        ),
        pytest.param({"image": "Not A Ref"}, [], id="API-070-image-syntax-unchecked"),
        pytest.param(
            {"ports": [{"name": "80", "containerPort": 80}]},
            [f'{C0}.ports[0].name: Invalid value: "80": must contain at least one letter (a-z)'],
            id="API-230-port-name-80",
        ),
        pytest.param(
            {"ports": [{"containerPort": 0}]},
            [f"{C0}.ports[0].containerPort: Required value"],
            id="API-230-port-0",
        ),
        pytest.param(
            {"ports": [{"containerPort": 65536}]},
            [f"{C0}.ports[0].containerPort: Invalid value: 65536: must be between 1 and 65535, inclusive"],
            id="API-230-port-65536",
        ),
        pytest.param(
            {"ports": [{"containerPort": 1, "protocol": "tcp"}]},
            [f'{C0}.ports[0].protocol: Unsupported value: "tcp": supported values: "SCTP", "TCP", "UDP"'],
            id="API-230-protocol",
        ),
        pytest.param(
            {"ports": [{"name": "a", "containerPort": 1}, {"name": "a", "containerPort": 2}]},
            [f'{C0}.ports[1].name: Duplicate value: "a"'],
            id="API-120-duplicate",
        ),
        pytest.param(
            {"env": [{"name": ""}, {"name": "A=B"}, {"name": "with blank"}]},
            [
                f"{C0}.env[0].name: Required value",
                f'{C0}.env[1].name: Invalid value: "A=B": a valid environment variable name must '
                f"consist only of "
                "printable ASCII characters other than '='",
            ],
            id="API-123",
        ),
        pytest.param(
            {"env": [{"name": "A", "valueFrom": {}}]},
            [
                f'{C0}.env[0].valueFrom: Invalid value: "": must specify one of: `fieldRef`, '
                f"`resourceFieldRef`, "
                "`configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"
            ],
            id="API-124-none",
        ),
        pytest.param(
            {"env": [{"name": "A", "value": "x", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]},
            [f'{C0}.env[0].valueFrom: Invalid value: "": may not be specified when `value` is not empty'],
            id="API-124-value",
        ),
        pytest.param(
            {
                "env": [
                    {
                        "name": "A",
                        "valueFrom": {
                            "fieldRef": {"fieldPath": "metadata.name"},
                            "secretKeyRef": {"name": "s", "key": "k"},
                        },
                    }
                ]
            },
            [
                f'{C0}.env[0].valueFrom: Invalid value: "": may not have more than one field specified '
                f"at a time"
            ],
            id="API-124-several",
        ),
        pytest.param(
            {"envFrom": [{}]},
            [f'{C0}.envFrom: Invalid value: "": must specify one of: `configMapRef` or `secretRef`'],
            id="API-124-envFrom",
        ),
        pytest.param(
            {"env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "x"}}}]},
            [
                f'{C0}.env[0].valueFrom.fieldRef.fieldPath: Invalid value: "x": '
                "error converting fieldPath: field label not supported: x"
            ],
            id="API-125-unknown",
        ),
        pytest.param(
            {"env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['a/b']"}}}]},
            [],
            id="API-125-subscript",
        ),
        pytest.param(
            {
                "env": [
                    {
                        "name": "A",
                        "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu", "divisor": "2"}},
                    }
                ]
            },
            [
                f'{C0}.env[0].valueFrom.resourceFieldRef.divisor: Invalid value: "limits.cpu": '
                "only divisor's values 1m and 1 are supported with the cpu resource"
            ],
            id="API-126",
        ),
        pytest.param(
            {"volumeMounts": [{"name": "v", "mountPath": "/a"}]},
            [f'{C0}.volumeMounts[0].name: Not found: "v"'],
            id="API-134-unknown",
        ),
        pytest.param(
            {"resizePolicy": [{"resourceName": "x", "restartPolicy": "y"}]},
            [
                f'{C0}.resizePolicy: Unsupported value: "x": supported values: "cpu", "memory"',
                f'{C0}.resizePolicy: Unsupported value: "y": supported values: "NotRequired", '
                f'"RestartContainer"',
            ],
            id="API-074",
        ),
        pytest.param(
            {"command": [""], "workingDir": "x", "stdinOnce": True, "terminationMessagePath": "x"},
            [],
            id="API-073-unchecked",
        ),
        pytest.param(
            {"securityContext": {"runAsUser": -1, "runAsNonRoot": True}},
            [
                f"{C0}.securityContext.runAsUser: Invalid value: -1: must be between 0 and 2147483647, "
                f"inclusive"
            ],
            id="API-150",
        ),
        pytest.param(
            {"securityContext": {"seccompProfile": {"type": "Localhost"}}},
            [
                f"{C0}.securityContext.seccompProfile.localhostProfile: Required value: "
                "must be set when seccomp type is Localhost"
            ],
            id="API-152",
        ),
        pytest.param({"securityContext": {"runAsUser": 0, "runAsNonRoot": True}}, [], id="API-151-root"),
        pytest.param(
            {"securityContext": {"procMount": "Unmasked"}},
            [
                f'{C0}.securityContext.procMount: Invalid value: "Unmasked": '
                "`hostUsers` must be false to use `Unmasked`"
            ],
            id="API-151-procMount",
        ),
    ],
)
def test_container(a_container, texts, fields, expected):
    assert texts(validate_pod_create(a_container(**fields))) == expected


HANDLER = {"exec": {"command": ["true"]}}


@pytest.mark.parametrize(
    ("probe", "expected"),
    [
        pytest.param({}, ["livenessProbe: Required value: must specify a handler type"], id="API-111-none"),
        pytest.param(
            {**HANDLER, "tcpSocket": {"port": "!"}},
            ["livenessProbe.tcpSocket: Forbidden: may not specify more than 1 handler type"],
            id="API-111-two",
        ),
        pytest.param({"exec": {}}, ["livenessProbe.exec.command: Required value"], id="API-111-exec"),
        pytest.param(
            {**HANDLER, "initialDelaySeconds": -1, "periodSeconds": -1},
            [
                "livenessProbe.initialDelaySeconds: Invalid value: -1: must be greater than or equal to 0",
                "livenessProbe.periodSeconds: Invalid value: -1: must be greater than or equal to 0",
            ],
            id="API-111-negative",
        ),
        pytest.param({**HANDLER, "periodSeconds": 0, "timeoutSeconds": 0}, [], id="API-016-zero-is-default"),
        pytest.param(
            {**HANDLER, "successThreshold": 2},
            ["livenessProbe.successThreshold: Invalid value: 2: must be 1"],
            id="API-230-successThreshold",
        ),
        pytest.param(
            {**HANDLER, "terminationGracePeriodSeconds": 0},
            ["livenessProbe.terminationGracePeriodSeconds: Invalid value: 0: must be greater than 0"],
            id="API-111-grace",
        ),
        pytest.param(
            {"httpGet": {"port": "8080"}},
            ['livenessProbe.httpGet.port: Invalid value: "8080": must contain at least one letter (a-z)'],
            id="API-111-digits",
        ),
        pytest.param({"httpGet": {"port": "missing"}}, [], id="API-073-missing-port"),
        pytest.param(
            {"httpGet": {"port": 0, "scheme": "ftp", "httpHeaders": [{"name": "Host:"}]}},
            [
                "livenessProbe.httpGet.port: Invalid value: 0: must be between 1 and 65535, inclusive",
                'livenessProbe.httpGet.scheme: Unsupported value: "ftp": supported values: "HTTP", "HTTPS"',
                'livenessProbe.httpGet.httpHeaders: Invalid value: "Host:": a valid HTTP header must '
                "consist of "
                "alphanumeric characters or '-' (e.g. 'X-Header-Name', regex used for validation is "
                "'[-A-Za-z0-9]+')",
            ],
            id="API-230-http",
        ),
        pytest.param(
            {"httpGet": {"port": 1, "httpHeaders": [{"name": "A"}, {"name": "A"}]}},
            [],
            id="API-230-header-twice",
        ),
        pytest.param(
            {"grpc": {"port": 65536}},
            ["livenessProbe.grpc.port: Invalid value: 65536: must be between 1 and 65535, inclusive"],
            id="API-111-grpc",
        ),
    ],
)
def test_liveness_probe(a_container, texts, probe, expected):
    found = texts(validate_pod_create(a_container(livenessProbe=probe)))
    assert found == [f"{C0}.{text}" for text in expected]


def test_readiness_probe_has_no_grace_api_111(a_container, texts):
    pod = a_container(readinessProbe={**HANDLER, "terminationGracePeriodSeconds": 5, "successThreshold": 3})
    assert texts(validate_pod_create(pod)) == [
        f"{C0}.readinessProbe.terminationGracePeriodSeconds: Invalid value: 5: must not be set for "
        f"readinessProbes"
    ]


@pytest.mark.parametrize(("seconds", "good"), [(-1, False), (0, True), (30, True), (31, False)])
def test_sleep_hook_api_111(a_container, texts, seconds, good):
    pod = a_container(lifecycle={"preStop": {"sleep": {"seconds": seconds}}})
    text = "must be non-negative and less than terminationGracePeriodSeconds (30)"
    expected = [] if good else [f"{C0}.lifecycle.preStop.sleep: Invalid value: {seconds}: {text}"]
    assert texts(validate_pod_create(pod)) == expected


def test_stop_signal_needs_an_os_api_111(a_pod, a_container, texts):
    pod = a_container(lifecycle={"stopSignal": "SIGUSR1"})
    assert texts(validate_pod_create(pod)) == [
        f"{C0}.lifecycle.stopSignal: Forbidden: may not be set for containers with empty `spec.os.name`"
    ]
    containers = [{"name": "main", "image": "a", "lifecycle": {"stopSignal": "SIGRTMIN+3"}}]
    assert validate_pod_create(a_pod(os={"name": "linux"}, containers=containers)) == ()
    found = texts(validate_pod_create(a_pod(os={"name": "windows"}, containers=containers)))
    assert found == [
        f'{C0}.lifecycle.stopSignal: Unsupported value: "SIGRTMIN+3": supported values: "SIGKILL", "SIGTERM"'
    ]


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        pytest.param({"readinessProbe": HANDLER}, ["readinessProbe"], id="API-230-init-probe"),
        pytest.param({"lifecycle": {}, "restartPolicy": "OnFailure"}, ["lifecycle"], id="API-080-OnFailure"),
        pytest.param(
            {
                "restartPolicy": "Always",
                "livenessProbe": HANDLER,
                "readinessProbe": HANDLER,
                "startupProbe": HANDLER,
                "lifecycle": {"preStop": HANDLER},
            },
            [],
            id="API-230-sidecar",
        ),
        pytest.param(
            {"resizePolicy": [{"resourceName": "cpu", "restartPolicy": "RestartContainer"}]},
            ["resizePolicy"],
            id="API-082",
        ),
    ],
)
def test_init_container(an_init, fields, expected):
    errors = validate_pod_create(an_init(**fields))
    assert [error.path for error in errors] == [f"spec.initContainers[0].{name}" for name in expected]


def test_names_are_unique_over_the_kinds_api_071(a_pod, texts):
    pod = a_pod(
        containers=[{"name": "a", "image": "x"}, {"name": "a", "image": "x"}],
        initContainers=[
            {"name": "a", "image": "x"},
            {"name": "b", "image": "x"},
            {"name": "b", "image": "x"},
        ],
    )
    assert texts(validate_pod_create(pod)) == [
        'spec.containers[1].name: Duplicate value: "a"',
        'spec.initContainers[0].name: Duplicate value: "a"',
        'spec.initContainers[2].name: Duplicate value: "b"',
    ]


def test_host_ports_api_083_120_122(a_pod, texts):
    port = {"containerPort": 8080, "hostPort": 8080}
    pod = a_pod(
        containers=[
            {"name": "a", "image": "x", "ports": [port]},
            {"name": "b", "image": "x", "ports": [port]},
        ],
        initContainers=[
            {"name": "i", "image": "x", "ports": [port]},
            {"name": "j", "image": "x", "ports": [port, {**port, "name": "n"}]},
        ],
    )
    assert texts(validate_pod_create(pod)) == [
        'spec.containers[1].ports[0].hostPort: Duplicate value: "TCP//8080"',
        'spec.initContainers[0].ports[1].hostPort: Duplicate value: "TCP//8080"',
    ]
    pod = a_pod(
        hostNetwork=True,
        containers=[{"name": "a", "image": "x", "ports": [{"containerPort": 1, "hostPort": 2}]}],
    )
    assert texts(validate_pod_create(pod)) == [
        f"{C0}.ports[0].hostPort: Invalid value: 2: must match `containerPort` when `hostNetwork` is true"
    ]


def test_ephemeral_containers_api_060_091_092(a_pod, texts):
    pod = a_pod(
        ephemeralContainers=[
            {
                "name": "main",
                "image": "x",
                "targetContainerName": "y",
                "ports": [{"containerPort": 1}],
                "resources": {"limits": {"cpu": "1"}},
                "livenessProbe": HANDLER,
                "volumeMounts": [{"name": "v", "mountPath": "/v", "subPath": "s"}],
            }
        ],
        volumes=[{"name": "v"}],
    )
    place, why = "spec.ephemeralContainers[0]", "Forbidden: cannot be set for an Ephemeral Container"
    assert texts(validate_pod_create(pod)) == [
        f'{place}.name: Duplicate value: "main"',
        f'{place}.targetContainerName: Not found: "y"',
        f"{place}.ports: {why}",
        f"{place}.resources: {why}",
        f"{place}.livenessProbe: {why}",
        f"{place}.volumeMounts[0].subPath: {why}",
        "spec.ephemeralContainers: Forbidden: cannot be set on create",
    ]


E0 = f"{C0}.env[0].valueFrom"


@pytest.mark.parametrize(
    ("source", "paths"),
    [
        ({"fieldRef": {}}, ["fieldRef.fieldPath"]),
        ({"fieldRef": {"apiVersion": "v2", "fieldPath": "metadata.name"}}, ["fieldRef.fieldPath"]),
        ({"fieldRef": {"fieldPath": "metadata.labels"}}, ["fieldRef.fieldPath"]),
        ({"fieldRef": {"fieldPath": "metadata.labels['-']"}}, ["fieldRef"]),
        ({"fieldRef": {"fieldPath": "spec.host"}}, []),
        ({"resourceFieldRef": {}}, ["resourceFieldRef.resource"]),
        ({"resourceFieldRef": {"resource": "limits.x"}}, ["resourceFieldRef.resource"]),
        ({"resourceFieldRef": {"resource": "limits.hugepages-2Mi", "divisor": "1Mi"}}, []),
        ({"resourceFieldRef": {"resource": "limits.memory", "divisor": "1m"}}, ["resourceFieldRef.divisor"]),
        ({"configMapKeyRef": {"name": "A", "key": ""}}, ["configMapKeyRef.name", "configMapKeyRef.key"]),
        ({"secretKeyRef": {"name": "a", "key": "b/c"}}, ["secretKeyRef.key"]),
        ({"fileKeyRef": {}}, ["fileKeyRef.key", "fileKeyRef.volumeName", "fileKeyRef.path"]),
    ],
)
def test_value_from_api_125_to_127(a_container, source, paths):
    pod = a_container(env=[{"name": "A", "valueFrom": source}])
    assert [error.path for error in validate_pod_create(pod)] == [f"{E0}.{path}" for path in paths]


@pytest.mark.parametrize(
    ("source", "paths"),
    [
        ({"prefix": "a=", "configMapRef": {"name": "a"}}, ["[0].prefix"]),
        ({"configMapRef": {}}, ["[0].configMapRef.name"]),
        ({"secretRef": {"name": "A"}}, ["[0].secretRef.name"]),
        ({"secretRef": {"name": "a"}, "configMapRef": {"name": "a"}}, [""]),
    ],
)
def test_env_from_api_124(a_container, source, paths):
    errors = validate_pod_create(a_container(envFrom=[source]))
    assert [error.path for error in errors] == [f"{C0}.envFrom{path}" for path in paths]


@pytest.mark.parametrize(
    ("context", "paths"),
    [
        ({"seccompProfile": {"type": ""}}, ["seccompProfile.type"]),
        ({"seccompProfile": {"type": "x"}}, ["seccompProfile.type"]),
        (
            {"seccompProfile": {"type": "Localhost", "localhostProfile": "/a"}},
            ["seccompProfile.localhostProfile"],
        ),
        (
            {"seccompProfile": {"type": "Unconfined", "localhostProfile": "a"}},
            ["seccompProfile.localhostProfile"],
        ),
        (
            {"appArmorProfile": {"type": "Localhost", "localhostProfile": " "}},
            ["appArmorProfile.localhostProfile"],
        ),
        ({"procMount": "x"}, ["procMount"]),
    ],
)
def test_security_context_api_151_152(a_container, context, paths):
    errors = validate_pod_create(a_container(securityContext=context))
    assert [error.path for error in errors] == [f"{C0}.securityContext.{path}" for path in paths]


def test_resize_policy_api_074(a_pod, texts):
    policies = [{"resourceName": "cpu", "restartPolicy": "RestartContainer"}] * 2
    pod = a_pod(restartPolicy="Never", containers=[{"name": "m", "image": "x", "resizePolicy": policies}])
    never = "must be 'NotRequired' when pod `restartPolicy` is 'Never'"
    place = f"{C0}.resizePolicy"
    assert texts(validate_pod_create(pod)) == [
        f'{place}: Invalid value: "RestartContainer": {never}',
        f'{place}[1]: Duplicate value: "cpu"',
        f'{place}: Invalid value: "RestartContainer": {never}',
    ]
    empty = a_pod(containers=[{"name": "m", "image": "x", "resizePolicy": [{}]}])
    assert texts(validate_pod_create(empty)) == [f"{place}: Required value"] * 2


def test_resize_of_sidecars_switched_off_api_082(an_init):
    pod = an_init(resizePolicy=[{"resourceName": "cpu", "restartPolicy": "NotRequired"}])
    (error,) = validate_pod_create(pod, options=Options(sidecar_resize=False))
    assert error.detail == "must not be set for init containers"


def test_windows_containers_api_063(a_pod):
    context = {"privileged": True, "capabilities": {}, "windowsOptions": {}}
    pod = a_pod(os={"name": "windows"}, containers=[{"name": "m", "image": "x", "securityContext": context}])
    assert [error.path for error in validate_pod_create(pod)] == [
        f"{C0}.securityContext.capabilities",
        f"{C0}.securityContext.privileged",
    ]
