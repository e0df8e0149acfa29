"""Validation of resources, claims, volumes and mounts: API-230, sections 13 and 14."""

import pytest

from kubelet_emu.api.validation import validate_pod_create

C0 = "spec.containers[0]"
R = f"{C0}.resources"


@pytest.mark.parametrize(
    ("resources", "expected"),
    [
        pytest.param({"limits": {"cpu": "1", "hugepages-2Mi": "4Mi"}}, [], id="API-230-hugepages"),
        pytest.param(
            {"limits": {"hugepages-2Mi": "4Mi"}},
            [f"{R}: Forbidden: HugePages require cpu or memory"],
            id="API-143",
        ),
        pytest.param(
            {"limits": {"cpu": "1", "hugepages-2Mi": "3Mi"}},
            [
                f'{R}.limits[hugepages-2Mi]: Invalid value: "3Mi": 3Mi is not positive integer multiple of '
                "hugepages-2Mi",
                f'{R}.requests[hugepages-2Mi]: Invalid value: "3Mi": 3Mi is not positive integer multiple of '
                "hugepages-2Mi",
            ],
            id="API-141-hugepages",
        ),
        pytest.param(
            {"requests": {"cpu": "1", "hugepages-2Mi": "2Mi"}},
            [f"{R}.limits: Required value: Limit must be set for non overcommitable resources"],
            id="API-230-hugepages-request",
        ),
        pytest.param(
            {"requests": {"example.com/tpu": "1"}},
            [f"{R}.limits: Required value: Limit must be set for non overcommitable resources"],
            id="API-142-extended",
        ),
        pytest.param(
            {"requests": {"example.com/tpu": "1"}, "limits": {"example.com/tpu": "2"}},
            [f'{R}.requests: Invalid value: "1": must be equal to example.com/tpu limit of 2'],
            id="API-142-equal",
        ),
        pytest.param(
            {"requests": {"memory": "2Gi"}, "limits": {"memory": "1Gi"}},
            [f'{R}.requests: Invalid value: "2Gi": must be less than or equal to memory limit of 1Gi'],
            id="API-142-less",
        ),
        pytest.param(
            {"requests": {"memory": "1024Mi"}, "limits": {"memory": "1Gi"}}, [], id="API-147-numeric"
        ),
        pytest.param(
            {"limits": {"example.com/tpu": "500m"}},
            [
                f'{R}.limits[example.com/tpu]: Invalid value: "500m": must be an integer',
                f'{R}.requests[example.com/tpu]: Invalid value: "500m": must be an integer',
            ],
            id="API-141-integer",
        ),
        pytest.param(
            {"requests": {"cpu": "-1"}},
            [f'{R}.requests[cpu]: Invalid value: "-1": must be greater than or equal to 0'],
            id="API-141-negative",
        ),
        pytest.param(
            {"requests": {"foo": "1"}},
            [
                f'{R}.requests[foo]: Invalid value: "foo": must be a standard resource type or fully '
                f"qualified",
                f'{R}.requests[foo]: Invalid value: "foo": must be a standard resource for containers',
            ],
            id="API-140-unprefixed",
        ),
        pytest.param(
            {"requests": {"pods": "1"}},
            [f'{R}.requests[pods]: Invalid value: "pods": must be a standard resource for containers'],
            id="API-140-quota",
        ),
        pytest.param({"requests": {"kubernetes.io/x": "1"}}, [], id="API-140-native"),
        pytest.param(
            {"claims": [{"name": "a"}]},
            [
                f'{R}.claims[0]: Not found: "a": must be one of the names in pod.spec.resourceClaims '
                "which is empty"
            ],
            id="API-146",
        ),
    ],
)
def test_resources(a_container, texts, resources, expected):
    assert texts(validate_pod_create(a_container(resources=resources))) == expected


def test_pod_level_resources_api_144(a_pod, texts):
    container = {
        "name": "a",
        "image": "x",
        "resources": {"requests": {"cpu": "200m"}, "limits": {"cpu": "2"}},
    }
    pod = a_pod(
        containers=[container],
        resources={
            "requests": {"cpu": "100m"},
            "limits": {"cpu": "1", "ephemeral-storage": "1", "kubernetesio/x": 1},
        },
    )
    supported = 'supported values: "cpu", "hugepages-", "memory"'
    assert sorted(texts(validate_pod_create(pod))) == sorted(
        [
            f'spec.resources.limits[ephemeral-storage]: Unsupported value: "ephemeral-storage": {supported}',
            f'spec.resources.limits[kubernetesio/x]: Unsupported value: "kubernetesio/x": {supported}',
            'spec.resources.requests[cpu]: Invalid value: "100m": must be greater than or equal to aggregate '
            "container requests of 200m",
            'spec.resources.containers[0][cpu].limits: Invalid value: "2": must be less than or equal to pod '
            "limits of 1",
        ]
    )


@pytest.mark.parametrize(
    ("claims", "paths"),
    [
        ([{"name": ""}], ["[0].name", "[0]"]),
        ([{"name": "a", "resourceClaimName": "x"}, {"name": "a", "resourceClaimName": "x"}], ["[1].name"]),
        ([{"name": "a", "resourceClaimName": "x", "resourceClaimTemplateName": "y"}], ["[0]"]),
        ([{"name": "a", "resourceClaimTemplateName": "Y"}], ["[0].resourceClaimTemplateName"]),
    ],
)
def test_resource_claims_api_145(a_pod, claims, paths):
    errors = validate_pod_create(a_pod(resourceClaims=claims))
    assert [error.path for error in errors] == [f"spec.resourceClaims{path}" for path in paths]


def test_claims_of_a_container_api_146(a_pod, texts):
    use = [
        {"name": "a", "request": "r"},
        {"name": "a"},
        {"name": "b"},
        {"name": "a", "request": "r"},
        {"name": ""},
    ]
    pod = a_pod(
        containers=[{"name": "m", "image": "x", "resources": {"claims": use}}],
        resourceClaims=[{"name": "a", "resourceClaimName": "x"}],
    )
    assert texts(validate_pod_create(pod)) == [
        f'{R}.claims[1]: Duplicate value: "a"',
        f'{R}.claims[2]: Not found: "b": must be one of the names in pod.spec.resourceClaims: a',
        f'{R}.claims[3]: Duplicate value: "a"',
        f"{R}.claims[4]: Required value",
    ]


V0 = "spec.volumes[0]"


@pytest.mark.parametrize(
    ("volume", "expected"),
    [
        pytest.param({"hostPath": {"path": ""}}, [f"{V0}.hostPath.path: Required value"], id="API-131-path"),
        pytest.param(
            {"hostPath": {"path": "/a/../b", "type": "X"}},
            [
                f"{V0}.hostPath.path: Invalid value: \"/a/../b\": must not contain '..'",
                f'{V0}.hostPath.type: Unsupported value: "X": supported values: "", "BlockDevice", '
                f'"CharDevice", '
                '"Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket"',
            ],
            id="API-131-host-path",
        ),
        pytest.param(
            {"emptyDir": {"sizeLimit": "-1", "medium": "?"}},
            [f"{V0}.emptyDir.sizeLimit: Forbidden: SizeLimit field must be a valid resource quantity"],
            id="API-131-size",
        ),
        pytest.param(
            {"secret": {"defaultMode": 512, "items": [{"key": "", "path": "/x"}]}},
            [
                f"{V0}.secret.secretName: Required value",
                f"{V0}.secret.defaultMode: Invalid value: 512: must be a number between 0 and 0777 (octal), "
                "both inclusive",
                f"{V0}.secret.items[0].key: Required value",
                f'{V0}.secret.items[0].path: Invalid value: "/x": must be a relative path',
            ],
            id="API-131-secret",
        ),
        pytest.param(
            {"configMap": {"name": "c", "items": [{"key": "k", "path": "..x"}]}},
            [f"{V0}.configMap.items[0].path: Invalid value: \"..x\": must not start with '..'"],
            id="API-132",
        ),
        pytest.param(
            {"emptyDir": {}, "downwardAPI": {}, "nfs": {"server": "s", "path": "/"}},
            [
                f"{V0}.nfs: Forbidden: may not specify more than 1 volume type",
                f"{V0}.downwarAPI: Forbidden: may not specify more than 1 volume type",
            ],
            id="API-130-two",
        ),
        pytest.param(
            {
                "downwardAPI": {
                    "items": [{"path": "p"}, {"path": "q", "fieldRef": {"fieldPath": "status.podIP"}}]
                }
            },
            [
                f"{V0}.downwardAPI: Required value: one of fieldRef and resourceFieldRef is required",
                f'{V0}.downwardAPI.fieldRef.fieldPath: Unsupported value: "status.podIP": supported values: '
                '"metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", '
                '"metadata.uid"',
            ],
            id="API-132-downward",
        ),
        pytest.param(
            {
                "projected": {
                    "sources": [
                        {"secret": {"name": "s", "items": [{"key": "k", "path": "p"}]}},
                        {"configMap": {"name": "c", "items": [{"key": "k", "path": "p"}]}, "downwardAPI": {}},
                    ]
                }
            },
            [
                f"{V0}.projected.sources[1].downwardAPI: Forbidden: may not specify more than 1 volume type "
                "per source",
                f'{V0}.projected: Invalid value: "c": conflicting duplicate paths',
            ],
            id="API-133",
        ),
        pytest.param(
            {"persistentVolumeClaim": {}}, [f"{V0}.persistentVolumeClaim.claimName: Required value"]
        ),
        pytest.param({"image": {}}, [f"{V0}.image.reference: Required value"]),
    ],
)
def test_volume(a_pod, texts, volume, expected):
    assert texts(validate_pod_create(a_pod(volumes=[{"name": "v", **volume}]))) == expected


def test_token_projection_api_063_133(a_pod, texts):
    token = {"serviceAccountToken": {"path": "", "expirationSeconds": 599}}
    pod = a_pod(volumes=[{"name": "v", "projected": {"sources": [token]}}])
    assert texts(validate_pod_create(pod)) == [
        f"{V0}.projected.sources[0].serviceAccountToken.expirationSeconds: Invalid value: 599: may not "
        f"specify a "
        "duration less than 10 minutes",
        f"{V0}.projected.path: Required value",
        f"{V0}.projected.sources[0].serviceAccountToken: Forbidden: must not be specified when "
        "serviceAccountName is not set",
    ]


def test_a_bad_volume_is_not_found_api_062(a_pod, texts):
    pod = a_pod(
        volumes=[{"name": "V"}, {"name": "a"}, {"name": "a"}],
        containers=[{"name": "m", "image": "x", "volumeMounts": [{"name": "V", "mountPath": "/v"}]}],
    )
    found = texts(validate_pod_create(pod))
    assert found[0].startswith('spec.volumes[0].name: Invalid value: "V": a lowercase RFC 1123 label')
    assert found[1:] == [
        'spec.volumes[2].name: Duplicate value: "a"',
        f'{C0}.volumeMounts[0].name: Not found: "V"',
    ]


M = f"{C0}.volumeMounts"


@pytest.mark.parametrize(
    ("mounts", "expected"),
    [
        pytest.param(
            [{"name": "v", "mountPath": "a"}, {"name": "v", "mountPath": "a"}],
            [f'{M}[1].mountPath: Invalid value: "a": must be unique'],
            id="API-134-unique",
        ),
        pytest.param(
            [{"name": "v", "mountPath": "/a", "subPath": "/x", "subPathExpr": "../x"}],
            [
                f'{M}.subPath: Invalid value: "/x": must be a relative path',
                f'{M}[0].subPathExpr: Invalid value: "../x": subPathExpr and subPath are mutually exclusive',
                f"{M}.subPathExpr: Invalid value: \"../x\": must not contain '..'",
            ],
            id="API-134-subPath",
        ),
        pytest.param(
            [{"name": "v", "mountPath": "/a", "mountPropagation": "Bidirectional"}],
            [
                f"{M}.mountPropagation: Forbidden: Bidirectional mount propagation is available only to "
                "privileged containers"
            ],
            id="API-135-propagation",
        ),
        pytest.param(
            [{"name": "v", "mountPath": "/a", "recursiveReadOnly": "Enabled"}],
            [f"{M}.recursiveReadOnly: Forbidden: may only be specified when readOnly is true"],
            id="API-135-recursive",
        ),
    ],
)
def test_mounts(a_pod, texts, mounts, expected):
    pod = a_pod(volumes=[{"name": "v"}], containers=[{"name": "m", "image": "x", "volumeMounts": mounts}])
    assert texts(validate_pod_create(pod)) == expected


def test_block_devices_api_136(a_pod, texts):
    pod = a_pod(
        volumes=[{"name": "v"}, {"name": "p", "persistentVolumeClaim": {"claimName": "c"}}],
        containers=[
            {
                "name": "m",
                "image": "x",
                "volumeDevices": [{"name": "v", "devicePath": "/d"}, {"name": "p", "devicePath": "/d"}],
            }
        ],
    )
    place = f"{C0}.volumeDevices"
    assert texts(validate_pod_create(pod)) == [
        f'{place}[0].name: Invalid value: "v": can only use volume source type of PersistentVolumeClaim or '
        "Ephemeral for block mode",
        f'{place}[1].devicePath: Invalid value: "/d": must be unique',
    ]


@pytest.mark.parametrize(
    ("devices", "mounts", "expected"),
    [
        ([{}], [], ["[0].name", "[0].name", "[0].devicePath"]),
        ([{"name": "p", "devicePath": "/a"}, {"name": "p", "devicePath": "/b"}], [], ["[1].name"]),
        ([{"name": "p", "devicePath": "../a"}], [], ["[0].devicePath"]),
    ],
)
def test_more_block_devices_api_136(a_pod, devices, mounts, expected):
    pod = a_pod(
        volumes=[{"name": "p", "persistentVolumeClaim": {"claimName": "c"}}],
        containers=[{"name": "m", "image": "x", "volumeDevices": devices, "volumeMounts": mounts}],
    )
    paths = [error.path for error in validate_pod_create(pod)]
    assert paths == [f"{C0}.volumeDevices{place}" for place in expected]


def test_a_volume_is_mounted_or_a_device_not_both_api_134_136(a_pod, texts):
    pod = a_pod(
        volumes=[{"name": "p", "persistentVolumeClaim": {"claimName": "c"}}],
        containers=[
            {
                "name": "m",
                "image": "x",
                "volumeDevices": [{"name": "p", "devicePath": "/a"}],
                "volumeMounts": [{"name": "p", "mountPath": "/a"}],
            }
        ],
    )
    assert texts(validate_pod_create(pod)) == [
        f'{M}[0].name: Invalid value: "p": must not already exist in volumeDevices',
        f'{M}[0].mountPath: Invalid value: "/a": must not already exist as a path in volumeDevices',
        f'{C0}.volumeDevices[0].name: Invalid value: "p": must not already exist in volumeMounts',
        f'{C0}.volumeDevices[0].devicePath: Invalid value: "/a": must not already exist as a path in '
        f"volumeMounts",
    ]


@pytest.mark.parametrize(
    ("mount", "names"),
    [
        ({"mountPath": ""}, ["[0].mountPath"]),
        ({"mountPropagation": "x"}, [".mountPropagation"]),
        ({"recursiveReadOnly": "x"}, [".recursiveReadOnly"]),
        ({"recursiveReadOnly": "Disabled"}, []),
        (
            {"recursiveReadOnly": "IfPossible", "readOnly": True, "mountPropagation": "HostToContainer"},
            [".recursiveReadOnly"],
        ),
    ],
)
def test_more_mounts_api_134_135(a_pod, mount, names):
    mounts = [{"name": "v", "mountPath": "/a", **mount}]
    pod = a_pod(volumes=[{"name": "v"}], containers=[{"name": "m", "image": "x", "volumeMounts": mounts}])
    assert [error.path for error in validate_pod_create(pod)] == [f"{M}{name}" for name in names]


@pytest.mark.parametrize(
    ("volume", "paths"),
    [
        (
            {"downwardAPI": {"items": [{"path": "", "resourceFieldRef": {"resource": "limits.cpu"}}]}},
            ["downwardAPI.path", "downwardAPI.resourceFieldRef.containerName"],
        ),
        (
            {
                "downwardAPI": {
                    "items": [
                        {
                            "path": "p",
                            "fieldRef": {"fieldPath": "metadata.name"},
                            "resourceFieldRef": {"resource": "limits.cpu"},
                        }
                    ]
                }
            },
            ["downwardAPI"],
        ),
        (
            {
                "projected": {
                    "sources": [
                        {"configMap": {}},
                        {
                            "downwardAPI": {
                                "items": [{"path": "p", "fieldRef": {"fieldPath": "metadata.uid"}}] * 2
                            }
                        },
                        {"serviceAccountToken": {"path": "p", "expirationSeconds": 2**32 + 1}},
                    ]
                }
            },
            [
                "projected.sources[0].configMap.name",
                "projected",
                "projected.sources[2].serviceAccountToken.expirationSeconds",
                "projected",
                "projected.sources[2].serviceAccountToken",
            ],
        ),
        ({"configMap": {"items": [{"key": "k", "path": ""}]}}, ["configMap.name", "configMap.items[0].path"]),
        ({"image": {"reference": "a", "pullPolicy": "x"}}, ["image.pullPolicy"]),
        ({"csi": {"driver": "d"}}, []),
    ],
)
def test_more_volumes_api_131_to_133(a_pod, volume, paths):
    errors = validate_pod_create(a_pod(volumes=[{"name": "v", **volume}]))
    assert [error.path for error in errors] == [f"{V0}.{path}" for path in paths]
