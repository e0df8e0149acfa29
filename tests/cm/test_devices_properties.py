"""DEV-202 on the device manager's books themselves, under random plugins, pods and restarts."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from k8s_proto import deviceplugin_v1beta1_pb2 as dp
from kubelet_emu.cm.devicemanager.checkpoint import checkpoint_of, decode, encode, restore
from kubelet_emu.cm.devicemanager.choosing import Request, choose
from kubelet_emu.cm.devicemanager.pod_devices import Held
from kubelet_emu.cm.devicemanager.run_options import merge_options
from kubelet_emu.cm.devicemanager.state import Device, DeviceState, Endpoint
from kubelet_emu.cm.topologymanager.hints import Hint
from kubelet_emu.kuberuntime.seams import RunDevice, RunMount

RESOURCES = ("a.com/x", "b.com/y")
IDS = tuple(f"d{n}" for n in range(6))
KINDS = ("init", "sidecar", "app")
HEALTH = ("Healthy", "Unhealthy", "weird")

devices = st.lists(
    st.builds(
        Device,
        st.sampled_from(IDS),
        st.sampled_from(HEALTH),
        st.sampled_from([None, (), (0,), (1,), (0, 1), (7,)]),
    ),
    max_size=6,
    unique_by=lambda device: device.id,
)


class Books(RuleBasedStateMachine):
    """One node; pods are admitted container by container, as a kubelet does."""

    def __init__(self):
        super().__init__()
        self.state = DeviceState()
        self.now = 0.0
        self.live = set()
        self.active = {}
        """By pod UID: kinds by container name."""
        self.first = {}
        """What each container was given first."""
        self.pods = 0

    @initialize(listed=devices)
    def plugin_comes(self, listed):
        self.connect(RESOURCES[0], listed)

    @rule(resource=st.sampled_from(RESOURCES), listed=devices)
    def connect(self, resource, listed):
        self.state.connected(resource, Endpoint(path=resource, connection=1))
        self.state.listed(resource, listed)
        self.live.add(resource)

    @rule(resource=st.sampled_from(RESOURCES))
    def disconnect(self, resource):
        if resource in self.live:
            self.live.discard(resource)
            self.state.disconnected(resource, self.now)

    @rule(seconds=st.sampled_from([1.0, 200.0, 301.0]))
    def time_passes(self, seconds):
        self.now += seconds
        found = self.state.capacity(self.now)
        for resource in found.removed:
            assert resource not in self.live

    @rule(
        kinds=st.lists(st.sampled_from(KINDS), min_size=1, max_size=4),
        data=st.data(),
    )
    def admit(self, kinds, data):
        self.pods += 1
        uid = f"pod-{self.pods}"
        order = sorted(kinds, key=lambda kind: kind == "app")
        self.active[uid] = {f"{kind}{n}": kind for n, kind in enumerate(order)}
        for name, kind in self.active[uid].items():
            self.state.begin_pod(uid)
            for resource in RESOURCES:
                limit = data.draw(st.integers(0, 3))
                hint = data.draw(st.sampled_from([None, Hint(1, True), Hint(2, False), Hint(None, True)]))
                if self.state.is_plugin_resource(resource) and not self._take(
                    uid, name, resource, limit, hint, data
                ):
                    # Refused: not active any more, collected with the next pod.
                    del self.active[uid]
                    return
            self.state.settle(uid, name, reusable=kind == "init")

    def _take(self, uid, name, resource, limit, hint, data):
        self.state.collect(self.active)
        steps = choose(
            self.state, Request(uid=uid, container=name, resource=resource, limit=limit, hint=hint)
        )
        try:
            question = next(steps)
            assert set(question.must_include) <= set(question.available)
            assert question.size == limit
            while True:
                steps.send(data.draw(st.lists(st.sampled_from((*IDS, "unknown")), max_size=4)))
        except StopIteration as end:
            choice = end.value
        if choice.ids:
            assert len(choice.ids) == len(set(choice.ids)) == limit
            self.state.assign(uid, name, resource, choice.ids, b"")
            self.first[uid, name, resource] = frozenset(choice.ids)
        return not choice.error

    @precondition(lambda self: self.active)
    @rule(data=st.data())
    def end_pod(self, data):
        del self.active[data.draw(st.sampled_from(sorted(self.active)))]

    @rule()
    def restart_kubelet(self):
        content = encode(checkpoint_of(self.state))
        self.state = DeviceState()
        restore(self.state, decode(content), self.now)
        self.live.clear()

    @invariant()
    def dev_202(self):
        self.state.collect(self.active)
        holders = {}
        for uid, name, resource, held in self.state.pods.entries():
            for device in held.ids:
                holders.setdefault((resource, device), set()).add((uid, name))
            if uid in self.active:
                assert self.first[uid, name, resource] == held.ids  # (f)
        for places in holders.values():
            assert len({uid for uid, _ in places}) == 1  # (a)
            lasting = [place for place in places if self.active[place[0]][place[1]] != "init"]
            assert len(lasting) <= 1  # (b)
        for resource in RESOURCES:
            held = {device for name, device in holders if name == resource}
            stray = self.state.stray.get(resource, set())
            assert self.state.allocated.get(resource, set()) == held | stray  # (c)

    @invariant()
    def capacity(self):
        found = self.state.capacity(self.now)
        for resource, number in found.capacity.items():
            assert found.allocatable.get(resource, 0) <= number  # (d)
            counted = len(self.state.healthy.get(resource, ())) + len(self.state.unhealthy[resource])
            assert number == counted  # (e)


Books.TestCase.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)
TestBooks = Books.TestCase


# -- DEV-19B --


def held(**fields):
    return Held({-1: ("x",)}, dp.ContainerAllocateResponse(**fields).SerializeToString())


def test_DEV_19B_options_of_two_resources():
    cdi = dp.CDIDevice
    first = held(cdi_devices=[cdi(name="v1/c1=d1"), cdi(name="v2/c2=d2")])
    second = held(cdi_devices=[cdi(name="v2/c2=d2"), cdi(name="v3/c3=d3")])
    merged = merge_options({"a.com/x": first, "b.com/y": second})
    assert set(merged.options.cdi_devices) == {"v1/c1=d1", "v2/c2=d2", "v3/c3=d3"}
    assert len(merged.options.cdi_devices) == 3
    assert merged.clashes == ()


def test_DEV_19B_an_empty_response_adds_nothing():
    options = merge_options({"a.com/x": held()}).options
    assert (options.envs, options.mounts, options.devices, options.cdi_devices) == ((), (), (), ())
    assert options.annotations == {}
    assert merge_options({}).options == options


def test_DEV_105_the_first_to_name_a_thing_wins():
    first = held(
        envs={"A": "1", "B": "2"},
        mounts=[dp.Mount(container_path="/m", host_path="/one", read_only=True)],
        devices=[dp.DeviceSpec(container_path="/dev/x", host_path="/dev/one", permissions="rw")],
        annotations={"k": "1"},
    )
    second = held(
        envs={"A": "9", "B": "2"},
        mounts=[dp.Mount(container_path="/m", host_path="/two")],
        devices=[dp.DeviceSpec(container_path="/dev/x", host_path="/dev/two", permissions="r")],
        annotations={"k": "9", "l": "3"},
    )
    merged = merge_options({"b.com/y": second, "a.com/x": first})
    assert dict(merged.options.envs) == {"A": "1", "B": "2"}
    assert merged.options.mounts == (RunMount(container_path="/m", host_path="/one", read_only=True),)
    assert merged.options.devices == (
        RunDevice(container_path="/dev/x", host_path="/dev/one", permissions="rw"),
    )
    assert merged.options.annotations == {"k": "1", "l": "3"}
    assert len(merged.clashes) == 4
    assert merged.clashes[0] == "environment variable A: 1 is kept, 9 is left out"
