"""Validation of metadata and of the fields of a pod: API-230, sections 6, 7 and 15."""

import pytest
from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st

from kubelet_emu.api.types import Pod
from kubelet_emu.api.validation import Options, validate_pod_create

C0 = "spec.containers[0]"


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param(
            {"restartPolicy": "x"},
            ['spec.restartPolicy: Unsupported value: "x": supported values: "Always", "OnFailure", "Never"'],
            id="API-042-restartPolicy",
        ),
        pytest.param(
            {"dnsPolicy": "x"},
            [
                'spec.dnsPolicy: Unsupported value: "x": supported values: "ClusterFirstWithHostNet", '
                '"ClusterFirst", "Default", "None"'
            ],
            id="API-042-dnsPolicy",
        ),
        pytest.param(
            {"activeDeadlineSeconds": 0},
            ["spec.activeDeadlineSeconds: Invalid value: 0: must be between 1 and 2147483647, inclusive"],
            id="API-063-deadline",
        ),
        pytest.param({"terminationGracePeriodSeconds": 0}, [], id="API-063-grace-0"),
        pytest.param({"terminationGracePeriodSeconds": -1}, [], id="API-006"),
        pytest.param(
            {"hostnameOverride": "a", "hostNetwork": True, "setHostnameAsFQDN": True},
            [
                "spec.hostnameOverride: Forbidden: may not be specified when setHostnameAsFQDN is true",
                "spec.hostnameOverride: Forbidden: may not be specified when hostNetwork is true",
            ],
            id="API-063-override",
        ),
        pytest.param(
            {"hostnameOverride": "a" * 65},
            ["spec.hostnameOverride: Too long: may not be more than 64 bytes"],
            id="API-063-override-long",
        ),
        pytest.param(
            {"hostUsers": False, "hostNetwork": True, "hostPID": True, "hostIPC": True},
            [
                "spec.hostNetwork: Forbidden: when `hostUsers` is false",
                "spec.HostPID: Forbidden: when `hostUsers` is false",
                "spec.HostIPC: Forbidden: when `hostUsers` is false",
            ],
            id="API-063-hostUsers",
        ),
        pytest.param(
            {"shareProcessNamespace": True, "hostPID": True},
            [
                "spec.securityContext.shareProcessNamespace: Invalid value: true: ShareProcessNamespace and "
                "HostPID cannot both be enabled"
            ],
            id="API-063-share",
        ),
        pytest.param(
            {"schedulingGates": [{"name": "a"}, {"name": "a"}], "nodeName": "n"},
            [
                'spec.schedulingGates[1]: Duplicate value: "a"',
                "spec.nodeName: Forbidden: cannot be set until all schedulingGates have been cleared",
            ],
            id="API-060-gates",
        ),
        pytest.param({"imagePullSecrets": [{}]}, [], id="API-063-pull-secret"),
        pytest.param({"os": {"name": ""}}, ["spec.os.name: Required value"], id="API-063-os"),
        pytest.param(
            {"os": {"name": "x"}},
            ['spec.os.name: Unsupported value: "x": supported values: "linux", "windows"'],
            id="API-063-os-name",
        ),
        pytest.param(
            {"os": {"name": "windows"}, "securityContext": {"runAsUser": 1}, "hostPID": True},
            [
                "spec.hostPID: Forbidden: cannot be set for a windows pod",
                "spec.securityContext.runAsUser: Forbidden: cannot be set for a windows pod",
            ],
            id="API-063-windows",
        ),
        pytest.param(
            {"os": {"name": "linux"}, "securityContext": {"windowsOptions": {}}},
            ["spec.securityContext.windowsOptions: Forbidden: windows options cannot be set for a linux pod"],
            id="API-063-linux",
        ),
        pytest.param(
            {"dnsPolicy": "None"},
            ["spec.dnsConfig: Required value: must provide `dnsConfig` when `dnsPolicy` is None"],
            id="API-154-config",
        ),
        pytest.param(
            {"dnsPolicy": "None", "dnsConfig": {"searches": ["a"]}},
            [
                "spec.dnsConfig.nameservers: Required value: must provide at least one DNS nameserver when "
                "`dnsPolicy` is None"
            ],
            id="API-154-nameserver",
        ),
        pytest.param(
            {"dnsConfig": {"nameservers": ["1.1.1.1"] * 4, "options": [{"value": "x"}]}},
            [
                'spec.dnsConfig.nameservers: Invalid value: ["1.1.1.1","1.1.1.1","1.1.1.1","1.1.1.1"]: '
                "must not have more than 3 nameservers",
                "spec.dnsConfig.options[0]: Required value: must not be empty",
            ],
            id="API-154-limits",
        ),
        pytest.param(
            {"hostAliases": [{"ip": "x", "hostnames": ["_"]}]},
            ["spec.hostAliases[0].ip", "spec.hostAliases[0].hostnames"],
            id="API-155",
        ),
        pytest.param({"preemptionPolicy": "x"}, ["spec.preemptionPolicy"], id="API-061-preemption"),
        pytest.param({"priorityClassName": "X"}, ["spec.priorityClassName"], id="API-063-priorityClass"),
        pytest.param({"runtimeClassName": "X"}, ["spec.runtimeClassName"], id="API-063-runtimeClass"),
        pytest.param(
            {"hostname": "a.b", "subdomain": "A"}, ["spec.hostname", "spec.subdomain"], id="API-063-host"
        ),
        pytest.param({"overhead": {"cpu": "-1"}}, ["spec.overhead.limits[cpu]"], id="API-063-overhead"),
        pytest.param(
            {"nodeSelector": {"a b": "c d"}}, ["spec.nodeSelector", "spec.nodeSelector"], id="API-061"
        ),
        pytest.param(
            {"readinessGates": [{"conditionType": ""}]}, ["spec.readinessGates[0].conditionType"] * 2
        ),
        pytest.param(
            {"topologySpreadConstraints": [{}]},
            [
                "spec.topologySpreadConstraints[0].maxSkew",
                "spec.topologySpreadConstraints[0].topologyKey",
                "spec.topologySpreadConstraints[0].whenUnsatisfiable",
            ],
            id="API-061-spread",
        ),
        pytest.param(
            {"securityContext": {"fsGroup": -1, "supplementalGroups": [-1], "fsGroupChangePolicy": "x"}},
            [
                "spec.securityContext.fsGroup",
                "spec.securityContext.supplementalGroups[0]",
                "spec.securityContext.fsGroupChangePolicy",
            ],
            id="API-150-pod",
        ),
        pytest.param(
            {
                "securityContext": {"sysctls": [{"name": "A"}, {"name": "net.x"}, {"name": "net/x"}, {}]},
                "hostNetwork": True,
            },
            [f"spec.securityContext.sysctls[{index}].name" for index in (0, 1, 2, 2, 3)],
            id="API-152-sysctls",
        ),
    ],
)
def test_pod_spec(a_pod, spec, expected):
    errors = validate_pod_create(a_pod(spec))
    found = [error.text if ": " in (expected or [""])[0] else error.path for error in errors]
    assert found == expected


T0 = "spec.tolerations[0]"


@pytest.mark.parametrize(
    ("toleration", "expected"),
    [
        pytest.param(
            {"operator": "Equal"},
            [
                f'{T0}.operator: Invalid value: "Equal": operator must be Exists when `key` is empty, '
                f"which means "
                '"match all values and all keys"'
            ],
            id="API-153-no-key",
        ),
        pytest.param({"operator": "Exists"}, [], id="API-153-all"),
        pytest.param(
            {"key": "a", "tolerationSeconds": 1, "effect": "NoSchedule"},
            [
                f"{T0}.effect: Invalid value: \"NoSchedule\": effect must be 'NoExecute' when "
                "`tolerationSeconds` is set"
            ],
            id="API-153-seconds",
        ),
        pytest.param(
            {"key": "a", "operator": "Exists", "value": "v"},
            [f"{T0}.operator: Invalid value: \"v\": value must be empty when `operator` is 'Exists'"],
            id="API-153-exists",
        ),
        pytest.param(
            {"key": "a", "operator": "Gt", "value": "1"},
            [f'{T0}.operator: Unsupported value: "Gt": supported values: "Equal", "Exists", "Lt", "Gt"'],
            id="API-153-Gt",
        ),
        pytest.param(
            {"key": "a", "operator": "x"},
            [f'{T0}.operator: Unsupported value: "x": supported values: "Equal", "Exists"'],
            id="API-153-operator",
        ),
        pytest.param(
            {"key": "a", "effect": "x"},
            [
                f'{T0}.effect: Unsupported value: "x": supported values: "NoSchedule", "PreferNoSchedule", '
                '"NoExecute"'
            ],
            id="API-153-effect",
        ),
    ],
)
def test_toleration(a_pod, texts, toleration, expected):
    assert texts(validate_pod_create(a_pod(tolerations=[toleration]))) == expected


@pytest.mark.parametrize(
    ("value", "good"),
    [("0950", False), ("high", False), ("95.5", False), ("950", True), ("-100", True), ("0", True)],
)
def test_numeric_toleration_api_230(a_pod, texts, value, good):
    pod = a_pod(tolerations=[{"key": "a", "operator": "Gt", "value": value}])
    found = texts(validate_pod_create(pod, options=Options(toleration_comparison=True)))
    text = "must be a valid decimal integer in canonical form"
    assert found == ([] if good else [f'{T0}.value: Invalid value: "{value}": {text}'])


@pytest.mark.parametrize(
    ("meta", "expected"),
    [
        pytest.param(
            {"name": ""}, ["metadata.name: Required value: name or generateName is required"], id="API-052"
        ),
        pytest.param({"labels": {"a/b/c": ""}}, ["metadata.labels"], id="API-053-key"),
        pytest.param({"labels": {"a": "-"}}, ["metadata.labels"], id="API-053-value"),
        pytest.param({"annotations": {"A/b": "x"}}, [], id="API-053-lower-cased"),
        pytest.param(
            {"annotations": {"a": "x" * 262144}},
            ["metadata.annotations: Too long: may not be more than 262144 bytes"],
            id="API-053-size",
        ),
        pytest.param(
            {"finalizers": ["x", "orphan", "a.b/c"]},
            [
                'metadata.finalizers: Invalid value: "x": name is neither a standard finalizer name nor '
                "is it "
                "fully qualified"
            ],
            id="API-054",
        ),
        pytest.param(
            {"ownerReferences": [{}]},
            ["metadata.ownerReferences." + n for n in ("apiVersion", "kind", "name", "uid")],
        ),
        pytest.param(
            {
                "ownerReferences": [
                    {"apiVersion": "v1", "kind": "A", "name": n, "uid": n, "controller": True} for n in "ab"
                ]
            },
            ["metadata.ownerReferences"],
            id="API-054-controllers",
        ),
        pytest.param(
            {"annotations": {"kubernetes.io/config.mirror": "h"}},
            [
                'metadata.annotations[kubernetes.io/config.mirror]: Invalid value: "h": must set '
                "spec.nodeName if "
                "mirror pod annotation is set"
            ],
            id="API-163",
        ),
        pytest.param(
            {"namespace": "a.b"}, ['metadata.namespace: Invalid value: "a.b": must not contain dots']
        ),
        pytest.param({"generateName": "web-"}, [], id="API-052-generate"),
        pytest.param({"generateName": "_"}, ["metadata.generateName"], id="API-052-generate-bad"),
    ],
)
def test_metadata(a_pod, meta, expected):
    errors = validate_pod_create(a_pod(meta=meta))
    found = [error.text if ": " in (expected or [""])[0] else error.path for error in errors]
    assert found == expected


def test_mirror_pods_have_no_claims_api_145(a_pod, texts):
    pod = a_pod(
        meta={"annotations": {"kubernetes.io/config.mirror": "h"}},
        nodeName="n",
        resourceClaims=[{"name": "a", "resourceClaimName": "x"}],
    )
    assert texts(validate_pod_create(pod)) == [": Forbidden: static pods do not support resource claims"]


def test_file_key_ref_api_127(a_pod, texts):
    def pod(volume):
        ref = {"volumeName": volume, "path": "../x", "key": "K"}
        env = [{"name": "A", "valueFrom": {"fileKeyRef": ref}}]
        return a_pod(
            containers=[{"name": "m", "image": "x", "env": env}],
            volumes=[{"name": "e"}, {"name": "h", "hostPath": {"path": "/h"}}],
        )

    place = f"{C0}.env[0].valueFrom.fileKeyRef"
    steps = f"{place}.path: Invalid value: \"../x\": must not contain '..'"
    assert texts(validate_pod_create(pod("e"))) == [steps]
    assert texts(validate_pod_create(pod("h")))[1:] == [
        f'{place}.volumeName: Invalid value: "h": referenced volume must be of type emptyDir'
    ]
    assert texts(validate_pod_create(pod("x")))[1:] == [f'{place}.volumeName: Not found: "x"']


def test_privilege_api_151(a_container, texts):
    pod = a_container(
        securityContext={
            "privileged": True,
            "allowPrivilegeEscalation": False,
            "capabilities": {"add": ["CAP_SYS_ADMIN"]},
        }
    )
    paths = [error.path for error in validate_pod_create(pod, options=Options(allow_privileged=False))]
    place = f"{C0}.securityContext"
    assert paths == [f"{place}.privileged", place, place]


def test_a_pod_that_was_not_defaulted_is_refused_not_crashed_on():
    paths = {error.path for error in validate_pod_create(Pod())}
    assert {"metadata.name", "metadata.namespace", "spec.containers", "spec.restartPolicy"} <= paths


names = st.sampled_from(["a", "b", "", "A", "a.b"])


@settings(max_examples=40, deadline=None)
@given(st.lists(names, max_size=3), st.lists(names, max_size=3), st.sampled_from([None, "Always", "x"]))
def test_validation_never_changes_or_raises_api_250(a_pod, regular, init, policy):
    pod = a_pod(
        containers=[{"name": n, "image": "x"} for n in regular],
        initContainers=[{"name": n, "image": "x", "restartPolicy": policy} for n in init],
    )
    before = evolve(pod)
    first = validate_pod_create(pod)
    assert pod == before
    assert validate_pod_create(pod) == first
    off = validate_pod_create(pod, options=Options(restart_rules=False, restart_all=False))
    assert bool(first) == bool(off)
