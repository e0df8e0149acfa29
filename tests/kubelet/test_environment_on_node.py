"""Environment, termination messages, and what keeps a container from being created (VOL-, IMG-40)."""

import pytest

from cri_fake.behaviours import Behaviour, Behaviours, Target


def config_map(name="c", **data):
    return {"kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"}, "data": data}


def secret(name="s", **data):
    return {"kind": "Secret", "metadata": {"name": name, "namespace": "default"}, "stringData": data}


async def environment(node, pod="p", container="a"):
    _, out, _ = await node.exec("default", pod, container, ["cat", "/env"])
    return dict(line.split("=", 1) for line in out.decode().splitlines() if "=" in line)


DUMP = "env > /env; sleep 3600"


def key_ref(kind, name, key, **more):
    return {"valueFrom": {f"{kind}KeyRef": {"name": name, "key": key, **more}}}


def field_ref(path):
    return {"valueFrom": {"fieldRef": {"fieldPath": path}}}


def test_vol_21_22_values_come_from_all_sources_in_order(on_node, busybox):
    async def story(node):
        node.apply_object(config_map(one="1", two="2"))
        node.apply_object(secret(token="t0"))
        env = [
            {"name": "LITERAL", "value": "$(P_one)-$$(P_one)-$(NOBODY)"},
            {"name": "MAPPED", **key_ref("configMap", "c", "two")},
            {"name": "TOKEN", **key_ref("secret", "s", "token")},
            {"name": "GONE", **key_ref("configMap", "c", "none", optional=True)},
            {"name": "EMPTY"},
            {"name": "P_two", "value": "own"},
        ]
        sources = [
            {"prefix": "P_", "configMapRef": {"name": "c"}},
            {"secretRef": {"name": "x", "optional": True}},
        ]
        node.apply(busybox(a={"script": DUMP, "env": env, "envFrom": sources}))
        await node.advance(4)
        return await environment(node)

    found = on_node(story)
    assert found["LITERAL"] == "1-$(P_one)-$(NOBODY)"
    assert (found["MAPPED"], found["TOKEN"], found["P_one"], found["P_two"]) == ("2", "t0", "1", "own")
    assert found["EMPTY"] == ""
    assert "GONE" not in found


def test_vol_25_fields_and_resources(on_node, busybox):
    async def story(node):
        env = [
            {"name": "NODE", **field_ref("spec.nodeName")},
            {"name": "NAME", **field_ref("metadata.name")},
            {"name": "UID", **field_ref("metadata.uid")},
            {"name": "IP", **field_ref("status.podIP")},
            {"name": "HOST", **field_ref("status.hostIP")},
            {"name": "LABEL", **field_ref("metadata.labels['team']")},
            {"name": "CPU", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}},
            {
                "name": "MEM",
                "valueFrom": {"resourceFieldRef": {"resource": "requests.memory", "divisor": "1Mi"}},
            },
        ]
        given = {"script": DUMP, "env": env, "resources": {"requests": {"memory": "64Mi"}}}
        pod = busybox(a=given)
        pod["metadata"]["labels"] = {"team": "blue"}
        node.apply(pod)
        await node.advance(4)
        return await environment(node), node.pod("p")

    found, pod = on_node(story)
    assert (found["NODE"], found["NAME"], found["UID"]) == ("node-1", "p", pod.metadata.uid)
    assert (found["IP"], found["HOST"]) == (pod.status.pod_ip, "192.0.2.10")
    assert (found["LABEL"], found["CPU"], found["MEM"]) == ("blue", "2", "64")


def test_vol_25_a_new_sandbox_shows_the_new_address_a_full_restart_the_old(on_node, busybox):
    async def story(node):
        node.apply(busybox(a={"script": DUMP, "env": [{"name": "IP", **field_ref("status.podIP")}]}))
        await node.advance(3)
        first = (await environment(node))["IP"], node.pod("p").status.pod_ip
        await node.stop_sandbox("default", "p")
        await node.advance(5)
        return first, ((await environment(node))["IP"], node.pod("p").status.pod_ip)

    first, second = on_node(story)
    assert first[0] == first[1]
    assert second[0] == second[1]
    assert first != second


def test_vol_26_service_variables(on_node, busybox):
    async def story(node):
        node.apply(busybox(a=DUMP))
        await node.advance(3)
        return await environment(node)

    found = on_node(story)
    assert found["KUBERNETES_SERVICE_HOST"] == "10.96.0.1"
    assert found["KUBERNETES_PORT_443_TCP_PORT"] == "443"


ENV_FAILURES = {
    "configMap-missing": (
        {"env": [{"name": "X", **key_ref("configMap", "x", "k")}]},
        'configmap "x" not found',
    ),
    "secret-missing": ({"env": [{"name": "X", **key_ref("secret", "x", "k")}]}, 'secret "x" not found'),
    "configMap-key": (
        {"env": [{"name": "X", **key_ref("configMap", "c", "k")}]},
        "couldn't find key k in ConfigMap default/c",
    ),
    "secret-key": (
        {"env": [{"name": "X", **key_ref("secret", "s", "k")}]},
        "couldn't find key k in Secret default/s",
    ),
    "envFrom-configMap": ({"envFrom": [{"configMapRef": {"name": "x"}}]}, 'configmap "x" not found'),
    "envFrom-secret": ({"envFrom": [{"secretRef": {"name": "x"}}]}, 'secret "x" not found'),
}


@pytest.mark.parametrize("case", ENV_FAILURES)
def test_vol_24_failures_are_waiting_reasons_and_go_once_the_object_is_there(on_node, busybox, seen, case):
    more, text = ENV_FAILURES[case]

    async def story(node):
        node.apply_object(config_map(a="1"))
        node.apply_object(secret(a="1"))
        node.apply(busybox(a={"script": DUMP, **more}, b="sleep 3600"))
        await node.advance(3)
        status = node.pod("p").status
        if "missing" in case or "envFrom" in case:
            make = config_map if "configMap" in case else secret
            node.apply_object(make("x", k="v"))
        elif "configMap" in case:
            node.store.patch("ConfigMap", "default", "c", {"data": {"k": "v"}})
        else:
            node.store.patch("Secret", "default", "s", {"data": {"k": "djE="}})
        await node.advance(20)
        return status, node.pod("p").status, seen(node)

    before, after, look = on_node(story)
    waiting = before.container_statuses[0].state.waiting
    assert (waiting.reason, waiting.message) == ("CreateContainerConfigError", text)
    assert before.container_statuses[1].state.running is not None
    assert look.messages("Failed", on="{a}")[0] == f"Error: {text}"
    assert after.phase == "Running"
    assert after.container_statuses[0].restart_count == 0


def test_vol_20_a_changed_source_never_restarts_a_container(on_node, busybox):
    async def story(node):
        node.apply_object(config_map(k="old"))
        node.apply(busybox(a={"script": DUMP, "env": [{"name": "X", **key_ref("configMap", "c", "k")}]}))
        await node.advance(3)
        node.store.patch("ConfigMap", "default", "c", {"data": {"k": "new"}})
        await node.advance(120)
        return (await environment(node))["X"], node.pod("p").status.container_statuses[0].restart_count

    assert on_node(story) == ("old", 0)


SECURITY = {
    "root-image": (
        {"runAsNonRoot": True},
        "container has runAsNonRoot and image will run as root (pod: ",
    ),
    "root-user": (
        {"runAsNonRoot": True, "runAsUser": 0},
        "container's runAsUser breaks non-root policy (pod: ",
    ),
}


@pytest.mark.parametrize("case", SECURITY)
def test_img_43_root_is_refused_where_it_may_not_be(on_node, busybox, case):
    context, text = SECURITY[case]

    async def story(node):
        node.apply(busybox(a={"script": "sleep 3600", "securityContext": context}))
        await node.advance(3)
        return node.pod("p").status.container_statuses[0].state.waiting

    waiting = on_node(story)
    assert waiting.reason == "CreateContainerConfigError"
    assert waiting.message.startswith(text)
    assert waiting.message.endswith("container: a)")


def test_img_40_a_start_that_fails_is_told_as_a_run_error(on_node, busybox, seen):
    async def story(node):
        node.apply(busybox(a="sleep 3600"))
        await node.advance(3)
        first = node.pod("p").status.container_statuses[0]
        await node.advance(30)
        return first, seen(node)

    told = Behaviours({Target("a"): Behaviour(start_failure="exec: no such file or directory")})
    first, look = on_node(story, behaviours=told)
    states = [(c["state"], c.get("reason")) for c in look.containers("a")]
    assert ("waiting", "RunContainerError") in states
    assert first.last_state is not None
    assert any(text.startswith("Error: ") and "no such file" in text for text in look.messages("Failed"))
    assert look.events("BackOff")


def test_vol_09_sub_paths(on_node, busybox):
    async def story(node):
        mounts = [
            {"name": "v", "mountPath": "/one", "subPath": "x/y"},
            {"name": "v", "mountPath": "/two", "subPathExpr": "$(WHO)"},
            {"name": "v", "mountPath": "/all"},
        ]
        given = {
            "script": "echo 1 > /one/f; echo 2 > /two/f; ls -R /all > /out; sleep 3600",
            "volumeMounts": mounts,
            "env": [{"name": "WHO", "value": "me"}],
        }
        node.apply(busybox(spec={"volumes": [{"name": "v", "emptyDir": {}}]}, a=given))
        await node.advance(4)
        one = await node.exec("default", "p", "a", ["cat", "/all/x/y/f"])
        two = await node.exec("default", "p", "a", ["cat", "/all/me/f"])
        return one[:2], two[:2]

    assert on_node(story) == ((0, b"1\n"), (0, b"2\n"))


def test_vol_05_a_sub_path_mount_never_updates(on_node, busybox):
    async def story(node):
        node.apply_object(config_map(k="old"))
        mounts = [{"name": "v", "mountPath": "/f", "subPath": "k"}, {"name": "v", "mountPath": "/all"}]
        volumes = [{"name": "v", "configMap": {"name": "c"}}]
        node.apply(busybox(spec={"volumes": volumes}, a={"script": "sleep 3600", "volumeMounts": mounts}))
        await node.advance(3)
        node.store.patch("ConfigMap", "default", "c", {"data": {"k": "new"}})
        await node.advance(120)
        outs = [await node.exec("default", "p", "a", ["cat", path]) for path in ("/f", "/all/k")]
        return [out for _, out, _ in outs]

    assert on_node(story) == [b"old", b"new"]


def test_vol_04_memory_medium_is_an_empty_dir_too(on_node, busybox):
    async def story(node):
        mount = {"volumeMounts": [{"name": "v", "mountPath": "/v"}]}
        spec = {"volumes": [{"name": "v", "emptyDir": {"medium": "Memory", "sizeLimit": "16Mi"}}]}
        node.apply(busybox(spec=spec, a={"script": "echo x > /v/f; sleep 2; exit 1", **mount}))
        await node.advance(4)
        return await node.exec("default", "p", "a", ["cat", "/v/f"])

    assert on_node(story)[:2] == (0, b"x\n")


def test_a_claim_is_a_named_place_on_the_node(on_node, busybox):
    async def story(node):
        mount = {"volumeMounts": [{"name": "v", "mountPath": "/v"}]}
        spec = {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]}
        node.apply(busybox("one", spec=spec, a={"script": "echo kept > /v/f; sleep 3600", **mount}))
        await node.advance(3)
        node.delete("one", grace_seconds=0)
        await node.advance(5)
        node.apply(busybox("two", spec=spec, a={"script": "sleep 3600", **mount}))
        await node.advance(3)
        return await node.exec("default", "two", "a", ["cat", "/v/f"])

    assert on_node(story)[:2] == (0, b"kept\n")


def test_vol_07_an_unknown_plugin_keeps_the_pod_waiting_and_is_told(on_node, busybox, seen):
    async def story(node):
        mount = {"volumeMounts": [{"name": "v", "mountPath": "/v"}]}
        spec = {"volumes": [{"name": "v", "nfs": {"server": "x", "path": "/"}}]}
        node.apply(busybox(spec=spec, a={"script": "sleep 3600", **mount}))
        await node.advance(10)
        waiting = node.pod("p").status.container_statuses[0].state.waiting.reason
        node.delete("p")
        await node.advance(10)
        return waiting, node.pods(), seen(node)

    waiting, pods, look = on_node(story)
    assert waiting == "ContainerCreating"
    assert look.messages("FailedMount")[0].startswith('MountVolume.SetUp failed for volume "v" : ')
    assert pods == ()


def test_vol_02_an_unused_volume_is_ignored_even_if_broken(on_node, busybox, seen):
    async def story(node):
        spec = {"volumes": [{"name": "v", "configMap": {"name": "none"}}]}
        node.apply(busybox(spec=spec, a="sleep 3600"))
        await node.advance(3)
        return node.pod("p").status.phase, seen(node).events("FailedMount")

    assert on_node(story) == ("Running", [])


def test_vol_10_hosts_file(on_node, busybox):
    async def story(node):
        aliases = [{"ip": "10.1.2.3", "hostnames": ["far", "away"]}]
        node.apply(busybox(spec={"hostAliases": aliases}, a="sleep 3600"))
        node.apply(busybox("h", spec={"hostNetwork": True}, a="sleep 3600"))
        await node.advance(3)
        outs = [await node.exec("default", pod, "a", ["cat", "/etc/hosts"]) for pod in ("p", "h")]
        return [out.decode() for _, out, _ in outs], node.pod("p").status.pod_ip

    (own, host), ip = on_node(story)
    assert own.startswith("# Kubernetes-managed hosts file.\n")
    assert f"{ip}\tp\n" in own
    assert "10.1.2.3\tfar\taway\n" in own
    assert host.startswith("# Kubernetes-managed hosts file (host network).\n")


def message_of(on_node, busybox, script, **more):
    async def story(node):
        node.apply(busybox(spec={"restartPolicy": "Never"}, a={"script": script, **more}))
        await node.advance(6)
        return node.pod("p").status.container_statuses[0].state.terminated.message

    return on_node(story)


def test_sta_314_the_message_comes_from_the_file_at_its_path(on_node, busybox):
    assert message_of(on_node, busybox, "echo -n why > /dev/termination-log; exit 1") == "why"
    given = {"terminationMessagePath": "/tmp/msg"}
    assert message_of(on_node, busybox, "echo -n here > /tmp/msg; exit 0", **given) == "here"


def test_sta_314_only_its_last_4096_bytes(on_node, busybox):
    script = (
        "i=0; while [ $i -lt 300 ]; do printf '%020d' $i; i=$((i+1)); done > /dev/termination-log; exit 1"
    )
    found = message_of(on_node, busybox, script)
    assert len(found) == 4096
    assert found.endswith("0" * 17 + "299")


def test_sta_314_the_log_stands_in_only_for_failures(on_node, busybox):
    given = {"terminationMessagePolicy": "FallbackToLogsOnError"}
    script = "i=0; while [ $i -lt 100 ]; do echo line$i; i=$((i+1)); done; exit "
    failed = message_of(on_node, busybox, script + "1", **given)
    assert failed.splitlines() == [f"line{number}" for number in range(20, 100)]
    assert message_of(on_node, busybox, script + "0", **given) is None


def test_sta_315_a_pods_messages_share_12288_bytes(on_node, busybox):
    fill = "i=0; while [ $i -lt 200 ]; do printf '%020d' $i; i=$((i+1)); done > /dev/termination-log; exit 0"

    async def story(node):
        scripts = {f"c{number}": fill for number in range(6)}
        node.apply(busybox(spec={"restartPolicy": "Never"}, **scripts))
        await node.advance(8)
        return [len(c.state.terminated.message) for c in node.pod("p").status.container_statuses]

    assert on_node(story) == [2048] * 6


def test_a_runtime_class_that_does_not_exist_keeps_the_sandbox_away(on_node, busybox, seen):
    async def story(node):
        node.apply(busybox(spec={"runtimeClassName": "missing"}, a="sleep 3600"))
        await node.advance(3)
        return node.pod("p").status, seen(node)

    status, look = on_node(story)
    assert status.phase == "Pending"
    text = 'Failed to create pod sandbox: runtimeclass.node.k8s.io "missing" not found'
    assert look.messages("FailedCreatePodSandBox")[0] == text
    assert not look.calls("RunPodSandbox")


def test_a_runtime_class_names_the_runtimes_handler(on_node, busybox, seen):
    async def story(node):
        node.apply_object({"kind": "RuntimeClass", "metadata": {"name": "plain"}, "handler": "runc"})
        node.apply_object({"kind": "RuntimeClass", "metadata": {"name": "strange"}, "handler": "kata"})
        node.apply(busybox(spec={"runtimeClassName": "plain"}, a="sleep 3600"))
        node.apply(busybox("q", spec={"runtimeClassName": "strange"}, a="sleep 3600"))
        await node.advance(3)
        return node.pod("p").status.phase, seen(node).messages("FailedCreatePodSandBox")

    phase, failed = on_node(story)
    assert phase == "Running"
    assert failed[0].endswith('no runtime for "kata" is configured')
