"""A device plugin as the documentation of grpcio would write it; only the message classes are ours.

Run as ``python plain_grpcio_plugin.py FOLDER RESOURCE MODE``; prints one line for each call. MODE is
``good``, ``bad-version`` or ``bad-bytes`` (an id that is no UTF-8).
"""

import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import grpc

from k8s_proto import deviceplugin_v1beta1_pb2 as pb

FOLDER, RESOURCE, MODE = sys.argv[1:]
SOCKET = f"plain-{MODE}.sock"
LISTS = [
    pb.ListAndWatchResponse(
        devices=[
            pb.Device(ID="D0", health="Healthy", topology=pb.TopologyInfo(nodes=[pb.NUMANode(ID=0)])),
            pb.Device(ID="D1", health=health),
        ]
    ).SerializeToString()
    for health in ("Healthy", "Unhealthy")
]
if MODE == "bad-bytes":
    LISTS = [LISTS[0].replace(b"D1", b"\xff\xfe")]
TURN = threading.Event()


def say(*words):
    print(*words, flush=True)


def options(request, context):
    say("options")
    return pb.DevicePluginOptions(pre_start_required=True, get_preferred_allocation_available=True)


def watch(request, context):
    say("watch")
    yield LISTS[0]
    TURN.wait(60)
    yield from LISTS[1:]
    TURN.clear()
    TURN.wait(60)


def preferred(request, context):
    reply = pb.PreferredAllocationResponse()
    for asked in request.container_requests:
        say("preferred", *sorted(asked.available_deviceIDs))
        reply.container_responses.add(deviceIDs=["D1"])
    return reply


def allocate(request, context):
    reply = pb.AllocateResponse()
    for asked in request.container_requests:
        say("allocate", *asked.devices_ids)
        one = reply.container_responses.add(envs={"PLAIN": ",".join(asked.devices_ids)})
        one.devices.add(container_path="/dev/plain0", host_path="/dev/null", permissions="rw")
        one.cdi_devices.add(name="example.com/plain=D1")
    return reply


def pre_start(request, context):
    say("pre-start", *request.devices_ids)
    TURN.set()
    return pb.PreStartContainerResponse()


def unary(function, request_type):
    return grpc.unary_unary_rpc_method_handler(
        function,
        request_deserializer=request_type.FromString,
        response_serializer=lambda reply: reply.SerializeToString(),
    )


server = grpc.server(ThreadPoolExecutor(8))
server.add_generic_rpc_handlers(
    [
        grpc.method_handlers_generic_handler(
            "v1beta1.DevicePlugin",
            {
                "GetDevicePluginOptions": unary(options, pb.Empty),
                "ListAndWatch": grpc.unary_stream_rpc_method_handler(
                    watch,
                    request_deserializer=pb.Empty.FromString,
                    response_serializer=lambda raw: raw,
                ),
                "GetPreferredAllocation": unary(preferred, pb.PreferredAllocationRequest),
                "Allocate": unary(allocate, pb.AllocateRequest),
                "PreStartContainer": unary(pre_start, pb.PreStartContainerRequest),
            },
        )
    ]
)
server.add_insecure_port(f"unix:{FOLDER}/{SOCKET}")
server.start()
channel = grpc.insecure_channel(f"unix:{FOLDER}/kubelet.sock")
register = channel.unary_unary(
    "/v1beta1.Registration/Register",
    request_serializer=pb.RegisterRequest.SerializeToString,
    response_deserializer=pb.Empty.FromString,
)
version = "v1alpha1" if MODE == "bad-version" else "v1beta1"
try:
    register(pb.RegisterRequest(version=version, endpoint=SOCKET, resource_name=RESOURCE), timeout=20)
    say("registered")
except grpc.RpcError as error:
    say("refused", error.code().name, error.details())
sys.stdin.read()
