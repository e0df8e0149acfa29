"""The compiled contracts against the published field tables, row by row (data/*.tsv), and regeneration."""

import csv
import importlib
import subprocess
import sys
from pathlib import Path

import pytest
from google.protobuf.descriptor import FieldDescriptor

from k8s_proto import health_v1_pb2, runtime_v1_pb2

DATA = Path(__file__).parent / "data"
ROOT = Path(__file__).parents[2]
SCALARS = {
    FieldDescriptor.TYPE_BOOL: "bool",
    FieldDescriptor.TYPE_BYTES: "bytes",
    FieldDescriptor.TYPE_DOUBLE: "double",
    FieldDescriptor.TYPE_FLOAT: "float",
    FieldDescriptor.TYPE_INT32: "int32",
    FieldDescriptor.TYPE_INT64: "int64",
    FieldDescriptor.TYPE_STRING: "string",
    FieldDescriptor.TYPE_UINT32: "uint32",
    FieldDescriptor.TYPE_UINT64: "uint64",
}
OTHERS = {
    "deviceplugin-v1beta1": "deviceplugin_v1beta1_pb2",
    "dra-health-v1alpha1": "dra_health_v1alpha1_pb2",
    "dra-v1": "dra_v1_pb2",
    "dra-v1beta1": "dra_v1beta1_pb2",
    "pluginregistration-v1": "pluginregistration_v1_pb2",
    "podresources-v1": "podresources_v1_pb2",
}


def read_rows(name):
    with (DATA / f"{name}.tsv").open(newline="") as file:
        return [tuple(row.values()) for row in csv.DictReader(file, delimiter="\t")]


def is_map(field):
    return field.message_type is not None and field.message_type.GetOptions().map_entry


def type_of(field):
    if is_map(field):
        key, value = field.message_type.fields
        return f"map<{type_of(key)},{type_of(value)}>"
    if field.message_type is not None:
        return field.message_type.full_name
    if field.enum_type is not None:
        return field.enum_type.full_name
    return SCALARS[field.type]


def is_repeated(field):
    """``is_repeated`` came after protobuf 6.30, and ``label`` is deprecated since."""
    return field.is_repeated if hasattr(field, "is_repeated") else field.label == field.LABEL_REPEATED


def label_of(field, *, packed_shown=False):
    if is_map(field):
        return "map"
    if is_repeated(field):
        return "repeated(packed)" if packed_shown and field.is_packed else "repeated"
    return "optional" if field.has_presence and field.message_type is None else "singular"


def all_messages(parent):
    for message in parent.values():
        if not message.GetOptions().map_entry:
            yield message
            yield from all_messages(message.nested_types_by_name)


def all_enums(file):
    yield from file.enum_types_by_name.values()
    for message in all_messages(file.message_types_by_name):
        yield from message.enum_types


def stream_of(method):
    sides = (method.client_streaming, method.server_streaming)
    return {(False, False): "unary", (False, True): "server-stream"}[sides]


def cri_rows():
    """All rows of the compiled CRI in the form of the table, without its last column."""
    file = runtime_v1_pb2.DESCRIPTOR
    rows = set()
    for service in file.services_by_name.values():
        rows.add(("service", file.package, service.name, "-", service.full_name, "-", "-"))
        for method in service.methods:
            sides = "unary/" + stream_of(method)
            types = f"{method.input_type.full_name} -> {method.output_type.full_name}"
            path = f"path=/{service.full_name}/{method.name}"
            rows.add(("rpc", service.full_name, method.name, "-", types, sides, path))
    for enum in all_enums(file):
        parent = enum.full_name.rpartition(".")[0]
        rows.add(("enum", parent, enum.name, "-", enum.full_name, "-", "-"))
        for value in enum.values:
            rows.add(("enum_value", enum.full_name, value.name, str(value.number), enum.full_name, "-", "-"))
    for message in all_messages(file.message_types_by_name):
        parent = message.full_name.rpartition(".")[0]
        rows.add(("message", parent, message.name, "-", message.full_name, "-", "-"))
        for field in message.fields:
            label = type_of(field) if is_map(field) else label_of(field)
            options = field.GetOptions()
            flags = [name for name in ("deprecated", "debug_redact") if getattr(options, name)]
            rows.add(
                (
                    "field",
                    message.full_name,
                    field.name,
                    str(field.number),
                    type_of(field),
                    label,
                    ",".join(flags) or "-",
                )
            )
    return rows


def test_cri_equals_its_table():
    table = {row[:7] for row in read_rows("cri-v1") if row[0] != "file"}
    assert cri_rows() == table


def test_cri_counts_and_header():
    header = {row[2]: row[4] if row[4] != "-" else row[3] for row in read_rows("cri-v1") if row[0] == "file"}
    rows = cri_rows()
    for kind in ("service", "rpc", "enum", "enum_value", "message", "field"):
        assert sum(row[0] == kind for row in rows) == int(header[f"count:{kind}"])
    file = runtime_v1_pb2.DESCRIPTOR
    assert file.package == header["package"]
    assert file.GetOptions().go_package == header["go_package"]
    assert not file.dependencies


@pytest.mark.parametrize("table", sorted(OTHERS))
def test_other_contract_equals_its_table(table):
    file = importlib.import_module(f"k8s_proto.{OTHERS[table]}").DESCRIPTOR
    package = file.package
    rows = set()
    for service in file.services_by_name.values():
        for method in service.methods:
            path = f"/{service.full_name}/{method.name}"
            ends = (method.input_type.full_name, method.output_type.full_name)
            rows.add((package, "rpc", service.name, method.name, "-", path, "-", *ends, stream_of(method)))
    for message in all_messages(file.message_types_by_name):
        for field in message.fields:
            label = label_of(field, packed_shown=True)
            place = (message.name, field.name, str(field.number))
            rows.add((package, "field", *place, type_of(field), label, "-", "-", "-"))
        if not message.fields:
            rows.add((package, "message", message.name, "-", "-", "-", "(no fields)", "-", "-", "-"))
    for enum in all_enums(file):
        for value in enum.values:
            place = (enum.name, value.name, str(value.number))
            rows.add((package, "enum-value", *place, "enum", "-", "-", "-", "-"))
    assert rows == set(read_rows(table))


def test_health_contract():
    service = health_v1_pb2.DESCRIPTOR.services_by_name["Health"]
    assert [(method.name, stream_of(method)) for method in service.methods] == [
        ("Check", "unary"),
        ("Watch", "server-stream"),
    ]
    reply = health_v1_pb2.HealthCheckResponse(status=health_v1_pb2.HealthCheckResponse.SERVING)
    assert reply.SerializeToString() == b"\x08\x01"
    assert health_v1_pb2.HealthCheckRequest(service="a").SerializeToString() == b"\x0a\x01a"


def test_contracts_leave_the_common_descriptor_pool_alone():
    from google.protobuf import descriptor_pool

    with pytest.raises(KeyError):
        descriptor_pool.Default().FindMessageTypeByName("runtime.v1.VersionRequest")


def test_messages_can_be_copied_and_pickled():
    import copy
    import pickle

    status = runtime_v1_pb2.ContainerStatus(id="a", labels={"b": "c"}, state=runtime_v1_pb2.CONTAINER_EXITED)
    assert copy.deepcopy(status) == status
    assert pickle.loads(pickle.dumps(status)) == status


def test_regeneration_changes_nothing():
    """Runs protoc, which takes about a second."""
    command = [sys.executable, str(ROOT / "tools" / "generate_protos.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
