"""A node that loses its power and comes up again (RST-171, RST-186, NOD-17, NOD-65)."""

POLITE = "trap 'exit 0' TERM; sleep 3600 & wait"
NEVER = {"restartPolicy": "Never"}


def test_nod_65_pods_come_back_in_new_sandboxes(on_node, busybox, seen):
    async def story(node):
        node.apply(busybox(init=[("i", "sleep 1")], a=POLITE))
        await node.advance(5)
        before = node.pod("p")
        await node.reboot(down_seconds=20)
        await node.advance(20)
        return before, node.pod("p"), seen(node)

    before, after, look = on_node(story)
    assert after.metadata.uid == before.metadata.uid
    assert after.status.phase == "Running"
    assert [c.restart_count for c in after.status.container_statuses] == [1]
    assert len(look.calls("RunPodSandbox")) == 2
    lost = look.exits("a#0")[0]
    assert (lost["code"], lost["reason"]) == (255, "Unknown")
    assert after.status.container_statuses[0].last_state.terminated.exit_code == 255
    assert len(look.events("SandboxChanged")) == 1


def test_nod_17_the_reboot_is_told_about_the_node(on_node, busybox, seen):
    async def story(node):
        await node.advance(1)
        await node.reboot()
        await node.advance(30)
        node_object = node.store.get("Node", "", node.settings.node_name)
        return [e for e in node.events() if e["reason"] == "Rebooted"], node_object["status"]["nodeInfo"][
            "bootID"
        ]

    events, boot_id = on_node(story)
    assert [(e["type"], e["involvedObject"]["kind"], e["message"]) for e in events] == [
        ("Warning", "Node", f"Node node-1 has been rebooted, boot id: {boot_id}")
    ]


def test_a_kubelet_restart_is_no_reboot(on_node):
    async def story(node):
        await node.restart_kubelet()
        await node.advance(30)
        return [e["reason"] for e in node.events()]

    assert on_node(story) == []


def test_rst_033_a_never_pod_does_not_come_back(on_node, busybox, seen):
    async def story(node):
        node.apply(busybox(spec=NEVER, a=POLITE))
        await node.advance(5)
        await node.reboot()
        await node.advance(20)
        return node.pod("p").status, seen(node)

    status, look = on_node(story)
    assert status.phase == "Failed"
    assert status.container_statuses[0].state.terminated.exit_code == 255
    assert len(look.calls("StartContainer")) == 1


def test_memory_volumes_are_empty_and_disk_volumes_are_kept(on_node, busybox):
    async def story(node):
        mounts = [{"name": "m", "mountPath": "/m"}, {"name": "d", "mountPath": "/d"}]
        volumes = [{"name": "m", "emptyDir": {"medium": "Memory"}}, {"name": "d", "emptyDir": {}}]
        script = "echo x >> /m/f; echo x >> /d/f; " + POLITE
        node.apply(busybox(spec={"volumes": volumes}, a={"script": script, "volumeMounts": mounts}))
        await node.advance(5)
        await node.reboot()
        await node.advance(20)
        outs = [await node.exec("default", "p", "a", ["cat", path]) for path in ("/m/f", "/d/f")]
        return [out for _, out, _ in outs]

    assert on_node(story) == [b"x\n", b"x\nx\n"]


def test_rst_171_a_forgetful_runtime_ends_a_full_restart(on_node, busybox, seen):
    """With the condition True in the API and nothing known any more it turns False and all starts afresh."""

    async def story(node):
        rules = [{"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [42]}}]
        script = "[ -e /v/x ] && sleep 3600; touch /v/x; sleep 2; exit 42"
        volumes = {"volumes": [{"name": "v", "emptyDir": {}}]}
        t = {
            "script": script,
            "restartPolicy": "Never",
            "restartPolicyRules": rules,
            "volumeMounts": [{"name": "v", "mountPath": "/v"}],
        }
        node.apply(busybox(spec={**NEVER, **volumes}, t=t, w="trap '' TERM; sleep 3600"))
        await node.advance(3.6)
        condition = seen(node).condition("AllContainersRestarting")[-1][0]
        await node.reboot(forget=True)
        await node.advance(20)
        return condition, node.pod("p").status, seen(node)

    condition, status, look = on_node(story)
    assert condition == "True"
    assert look.condition("AllContainersRestarting")[-1][0] == "False"
    assert status.phase == "Running"
    assert [c.restart_count for c in status.container_statuses] == [1, 1]
    assert {c.last_state.terminated.reason for c in status.container_statuses} == {"RestartingAllContainers"}


def test_rst_171_one_that_remembers_resets_in_the_new_sandbox(on_node, busybox, seen):
    async def story(node):
        rules = [{"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [42]}}]
        script = "[ -e /v/x ] && sleep 3600; touch /v/x; sleep 2; exit 42"
        volumes = {"volumes": [{"name": "v", "emptyDir": {}}]}
        t = {
            "script": script,
            "restartPolicy": "Never",
            "restartPolicyRules": rules,
            "volumeMounts": [{"name": "v", "mountPath": "/v"}],
        }
        node.apply(busybox(spec={**NEVER, **volumes}, t=t, w="trap '' TERM; sleep 3600"))
        await node.advance(3.6)
        await node.reboot()
        await node.advance(20)
        return node.pod("p").status, seen(node)

    status, look = on_node(story)
    told = look.told("RunPodSandbox", "RemoveContainer", "StartContainer")[3:]
    assert told == [
        "RunPodSandbox sandbox#1",
        "RemoveContainer w#0",
        "RemoveContainer t#0",
        "StartContainer t#1",
        "StartContainer w#1",
    ]
    assert [c.restart_count for c in status.container_statuses] == [1, 1]


def test_static_pods_come_back_too(on_node, seen):
    from kubelet_emu.settings import KubeletSettings

    async def story(node):
        node.files.make_dirs("/manifests")
        text = (
            b"apiVersion: v1\nkind: Pod\nmetadata: {name: s}\n"
            b"spec: {containers: [{name: a, image: docker.io/library/busybox:1.36, command: [sleep, '999']}]}"
        )
        node.files.write("/manifests/s.yaml", text)
        await node.advance(25)
        await node.reboot()
        await node.advance(30)
        return node.pod("s-node-1").status, seen(node)

    status, look = on_node(story, settings=KubeletSettings(static_pod_path="/manifests"))
    assert status.phase == "Running"
    assert len(look.calls("RunPodSandbox")) == 2
