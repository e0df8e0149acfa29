"""Loading of manifests: strictness, lines, lists, kinds and bad input (API-180 to API-186, API-240)."""

import io

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kubelet_emu.api import manifests
from kubelet_emu.api.check import check_input
from kubelet_emu.api.manifests import MAX_FILE_BYTES, load, load_text
from kubelet_emu.api.strict import check_strict, nearest
from kubelet_emu.api.types import Pod
from kubelet_emu.api.yaml_source import line_of, parse_documents
from kubelet_emu.errors import CallerError
from kubelet_emu.gates import Gates

POD = """\
apiVersion: v1
kind: Pod
metadata:
  name: web
spec:
  containers:
  - name: main
    image: busybox:1.36
"""


def lines(loaded):
    return [(problem.line, problem.path) for problem in loaded.problems]


def messages(loaded):
    return [problem.message for problem in loaded.problems]


def value(text):
    (document,) = parse_documents(text)
    assert document.problems == ()
    return document.value


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(text, expected, id=f"API-185-{text}")
        for text, expected in [
            ("yes", True),
            ("Off", False),
            ("y", True),
            ("N", False),
            ("true", True),
            ("tRUE", "tRUE"),
            ("017", 15),
            ("0o17", 15),
            ("0x1F", 31),
            ("-0b11", -3),
            ("08", 8),
            ("1_000", 1000),
            ("1e3", 1000),
            ("1.5", 1.5),
            ("2.0", 2),
            (".5", 0.5),
            ("12:30:45", "12:30:45"),
            ("2026-01-01", "2026-01-01"),
            ("2026-01-02T03:04:05Z", "2026-01-02T03:04:05Z"),
            ("~", None),
            ("Null", None),
            ("", None),
            ("'5'", "5"),
            ('"on"', "on"),
            ("!!str 5", "5"),
            ("!!int '5'", 5),
            ("!!binary aGk=", "hi"),
            (".inf", ".inf"),
            ("-", [None]),
            ("<<", "<<"),
            ("=", "="),
            ("1.2.3", "1.2.3"),
            ("+5", 5),
        ]
    ],
)
def test_scalars_resolve_as_in_kubernetes(text, expected):
    found = value("- " + text if text != "-" else "-\n  -")[0]
    assert found == expected
    assert type(found) is type(expected)


def test_keys_become_texts_and_merges_work():
    text = (
        "base: &b {x: 1, z: 0}\non: 1\n5: 2\n'<<': q\nc:\n  <<: *b\n  z: 3\nd:\n  <<: [{k: 1}, {k: "
        "2, l: 3}]\n"
    )
    assert value(text) == {
        "base": {"x": 1, "z": 0},
        "true": 1,
        "5": 2,
        "<<": "q",
        "c": {"z": 3, "x": 1},
        "d": {"k": 1, "l": 3},
    }


def test_lines_of_paths():
    (document,) = parse_documents(POD)
    assert line_of(document.lines, "spec.containers[0].image") == 8
    assert line_of(document.lines, "spec.containers[0].resources.limits[cpu]") == 7
    assert line_of(document.lines, "metadata.labels") == 3
    assert line_of(document.lines, "nothing.at.all") == 1
    assert line_of({}, "x") == 0
    (document,) = parse_documents("a:\n  b.c/d: 1\n")
    assert line_of(document.lines, "a[b.c/d]") == 2


@pytest.mark.parametrize(
    ("text", "line", "part"),
    [
        ("a: b: c", 1, "mapping values are not allowed"),
        ("a:\n\t- b", 2, "cannot start any token"),
        ("a: 1\nb: [1", 3, "did not find expected"),
        ("a: &a [*a]", 1, "contains itself"),
        ("a: *b", 1, "found undefined alias"),
        ("? [a]\n: b", 1, "a key has to be a plain scalar"),
        ("a: !foo b", 1, "cannot decode 'b' as !foo"),
        ("a: !!int x", 1, "cannot decode 'x' as !!int"),
        ("a: !!binary '*'", 1, "!!binary"),
        ("a:\n  <<: 5", 2, "map merge requires"),
        ("a: \0", 0, "control characters are not allowed"),
        ("[" * 5000, 1, "nesting depth"),
        ("- " * 300 + "a", 1, "nested too deeply"),
    ],
)
def test_broken_yaml(text, line, part):
    (document,) = parse_documents(text)
    (problem,) = document.problems
    assert problem.message.startswith("error converting YAML to JSON: yaml: ")
    assert part in problem.message
    assert problem.line == line


def test_a_bomb_of_aliases_is_refused():
    bomb = "a: &a [x,x,x,x,x,x,x,x,x,x]\n" + "".join(
        f"{chr(98 + i)}: &{chr(98 + i)} [{','.join(['*' + chr(97 + i)] * 10)}]\n" for i in range(8)
    )
    (document,) = parse_documents(bomb)
    assert "excessive aliasing" in document.problems[0].message


def test_json_is_read_even_where_yaml_would_fail():
    assert value('{"a": "\\ud83d\\ude00", "b": "\\/",\t"c": 1}') == {"a": "😀", "b": "/", "c": 1}
    documents = parse_documents('{"a":1}\n{"b":"\\ud83d\\ude00"}')
    assert [document.value for document in documents] == [{"a": 1}, {"b": "😀"}]
    assert documents[1].lines[""] == 2


def test_several_documents_and_empty_ones():
    loaded = load_text(f"---\n---\n{POD}---\n{POD.replace('web', 'two')}---\n# end\n")
    assert loaded.problems == ()
    assert [(pod.metadata.name, pod.metadata.namespace) for pod in loaded.pods] == [
        ("web", "default"),
        ("two", "default"),
    ]


def test_unknown_fields_and_wrong_types_all_at_once_api_180():
    text = POD.replace("image:", "imagee:") + (
        "    env:\n    - name: A\n      value: 1\n    tty: 'yes'\n  affinity:\n    nodeAffinity:\n      "
        "requiredX: {}\n"
        "  tolerations: {}\n  volumes:\n  - name: v\n    nfs: {server: s, pth: /}\n    foo: {}\n"
    )
    loaded = load_text(text, file="f.yaml")
    assert loaded.objects == ()
    assert [(p.line, p.message) for p in loaded.problems] == [
        (8, 'unknown field "spec.containers[0].imagee"'),
        (
            11,
            "json: cannot unmarshal number into Go struct field EnvVar.spec.containers.env.value of "
            "type string",
        ),
        (12, "json: cannot unmarshal string into Go struct field Container.spec.containers.tty of type bool"),
        (15, 'unknown field "spec.affinity.nodeAffinity.requiredX"'),
        (
            16,
            "json: cannot unmarshal object into Go struct field PodSpec.spec.tolerations of type "
            "[]v1.Toleration",
        ),
        (19, 'unknown field "spec.volumes[0].nfs.pth"'),
        (20, 'unknown field "spec.volumes[0].foo"'),
    ]
    assert {p.file for p in loaded.problems} == {"f.yaml"}
    assert loaded.problems[0].hint == 'did you mean "image"?'
    assert loaded.problems[1].hint == 'put it in quotes: "1"'
    with pytest.raises(CallerError):
        loaded.raise_problems()


@pytest.mark.parametrize(
    ("rule", "path", "hint"),
    [
        pytest.param(
            "{action: Restart, onExit: {}}", "onExit", "directly under the rule", id="API-240-onExit"
        ),
        pytest.param("{action: Restart, when: {}}", "when", "directly under the rule", id="API-240-when"),
        pytest.param(
            "{action: Restart, restartTimes: 3}", "restartTimes", "cannot limit", id="API-240-times"
        ),
        pytest.param("{action: Restart, exitcodes: {}}", "exitcodes", '"exitCodes"', id="API-184"),
    ],
)
def test_published_shapes_that_do_not_work(rule, path, hint):
    loaded = load_text(POD + f"    restartPolicyRules:\n    - {rule}\n")
    (problem,) = loaded.problems
    assert problem.path == f"spec.containers[0].restartPolicyRules[0].{path}"
    assert problem.message == f'unknown field "{problem.path}"'
    assert hint in problem.hint


def test_third_party_shape_api_240():
    (problem,) = load_text(POD + "    containerRestartRules: []\n").problems
    assert "restartPolicyRules" in problem.hint
    (problem,) = load_text(POD + "    restartPolicyRules: [{exitCodes: {values: ['42']}}]\n").problems
    assert problem.message.endswith("of type int32")


def test_duplicate_keys_are_told_with_their_line():
    loaded = load_text(POD + "    image: other\n")
    assert messages(loaded) == ['duplicate field "spec.containers[0].image"']
    assert lines(loaded) == [(9, "spec.containers[0].image")]
    assert loaded.objects == ()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("apiversion: v1\nkind: Pod\n", ["apiVersion not set"], id="API-240-apiversion"),
        pytest.param("spec: {}\n", ["kind not set", "apiVersion not set"], id="API-186"),
        pytest.param(
            "apiVersion: v2\nkind: Pod\n", ['no matches for kind "Pod" in version "v2"'], id="version"
        ),
        pytest.param("apiVersion: v1\nkind: pod\n", ["kind pod is not supported"], id="case"),
        pytest.param(
            "apiVersion: apps/v1\nkind: Deployment\n", ["kind Deployment is not supported"], id="workload"
        ),
        pytest.param("apiVersion: v1\nkind: Service\n", ["kind Service is not supported"], id="other"),
        pytest.param("- a\n", ["not a Kubernetes object but a list"], id="list"),
        pytest.param("hello\n", ["not a Kubernetes object but a single value"], id="scalar"),
        pytest.param("", ["no objects in the file"], id="empty"),
        pytest.param("# only a comment\n", ["no objects in the file"], id="comment"),
        pytest.param("apiVersion: v1\nkind: List\n", ["items not set"], id="list-without-items"),
        pytest.param(
            "apiVersion: v1\nkind: Pod\nmetadata: []\n",
            ["json: cannot unmarshal array into Go struct field Pod.metadata of type v1.ObjectMeta"],
            id="metadata",
        ),
    ],
)
def test_objects_that_cannot_be_taken(text, expected):
    assert messages(load_text(text)) == expected


def test_hints_of_kinds():
    (problem,) = load_text("apiversion: v1\nkind: Pod\n").problems
    assert problem.hint == "the field is written apiVersion, not apiversion"
    (problem,) = load_text("apiVersion: batch/v1\nkind: CronJob\n", file="c.yaml").problems
    assert "spec.jobTemplate.spec.template" in problem.hint
    assert "c.yaml" in problem.hint
    (problem,) = load_text("apiVersion: v1\nkind: Pods\n").problems
    assert problem.hint.startswith('did you mean "Pod"?')


def test_lists_and_other_kinds():
    loaded = load_text(
        """\
apiVersion: v1
kind: List
items:
- apiVersion: v1
  kind: ConfigMap
  metadata: {name: c}
  data: {a: b}
- apiVersion: v1
  kind: Secret
  metadata: {name: s, namespace: ns}
  stringData: {a: b}
- apiVersion: v1
  kind: Namespace
  metadata: {name: ns}
---
apiVersion: v1
kind: PodList
items:
- metadata: {name: p}
  spec: {containers: [{name: a, imag: b}]}
"""
    )
    assert loaded.config_maps[0].data == {"a": "b"}
    assert loaded.secrets[0].metadata.namespace == "ns"
    assert [other.kind for other in loaded.others] == ["Namespace"]
    assert "namespace" not in loaded.others[0].json["metadata"]
    assert lines(loaded) == [(20, "spec.containers[0].imag")]


def test_nested_lists_have_a_bound():
    text = '{"kind": "List", "apiVersion": "v1", "items": [' * 9 + "]}" * 9
    assert messages(load_text(text)) == ["lists are nested too deeply"]


def test_files_folders_and_standard_input(tmp_path):
    (tmp_path / "b.yaml").write_text(POD.replace("web", "b"))
    (tmp_path / "a.json").write_text('{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a"}}')
    (tmp_path / "c.txt").write_text("not read: [")
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "d.yaml").write_text(POD)
    loaded = load([tmp_path, "-"], stdin=io.BytesIO(POD.replace("web", "in").encode()))
    assert loaded.problems == ()
    assert [pod.metadata.name for pod in loaded.pods] == ["a", "b", "in"]
    assert loaded.objects[0].source.file == str(tmp_path / "a.json")
    assert [pod.metadata.name for pod in load([tmp_path / "b.yaml", str(tmp_path / "b.yaml")]).pods] == ["b"]


class _Trickle(io.RawIOBase):
    """Hands out a byte at a time, as a pipe may."""

    def __init__(self, data):
        self.data = data

    def read(self, size=-1):
        piece, self.data = self.data[:1], self.data[1:]
        return piece


def test_standard_input_that_trickles():
    assert load(["-"], stdin=_Trickle(POD.encode())).pods[0].metadata.name == "web"


def test_missing_unreadable_empty_and_large_files(tmp_path):
    (tmp_path / "pod.yaml").write_text(POD)
    (tmp_path / "binary").write_bytes(b"\x7fELF\x02\xff\xfe")
    (tmp_path / "latin").write_bytes(b"a: b\nc: \xe9\n")
    (tmp_path / "large").write_bytes(b"#" * (MAX_FILE_BYTES + 1))
    (tmp_path / "none").mkdir()

    def only(name, **more):
        (problem,) = load([name], **more).problems
        return problem

    missing = only(tmp_path / "pod.yml")
    assert missing.message == f'the path "{tmp_path / "pod.yml"}" does not exist'
    assert missing.hint == f'did you mean "{tmp_path / "pod.yaml"}"?'
    assert only(tmp_path / "nowhere" / "x").hint == ""
    assert "archive or a program" in only(tmp_path / "binary").hint
    latin = only(tmp_path / "latin")
    assert (latin.line, latin.message) == (2, "error converting YAML to JSON: yaml: line 2: invalid UTF-8")
    assert "larger than" in only(tmp_path / "large").message
    assert only(tmp_path / "none").message == "the folder has no manifests"
    assert only("http://example.com/x").message.endswith("is a URL")
    assert only("-").message == "there is no standard input to read"
    assert "does not exist" in only("a\0b").message or "cannot be read" in only("a\0b").message
    assert messages(load([])) == ["no files given"]


def test_the_same_object_twice(tmp_path):
    (tmp_path / "a.yaml").write_text(POD)
    (tmp_path / "b.yaml").write_text(POD)
    (problem,) = load([tmp_path]).problems
    assert problem.message == 'pods "web" already exists'
    assert problem.hint == f"the first one is at {tmp_path / 'a.yaml'}:4"
    assert problem.line == 4


def test_check_gives_validation_errors_their_line():
    text = POD.replace("main", "Main") + "    ports: [{containerPort: 0}]\n    env: [{name: A}, {name: A}]\n"
    checked = check_input(load_text(text, file="f.yaml"))
    assert checked.pods == ()
    assert [(p.file, p.line, p.path) for p in checked.problems] == [
        ("f.yaml", 7, "spec.containers[0].name"),
        ("f.yaml", 9, "spec.containers[0].ports[0].containerPort"),
    ]
    assert [p.line for p in checked.warnings] == [10]
    with pytest.raises(CallerError):
        checked.raise_problems()


def test_check_hands_out_defaulted_pods():
    checked = check_input(load_text(POD)).raise_problems()
    assert checked.pods[0].spec.restart_policy == "Always"
    assert checked.pods[0].status.qos_class == "BestEffort"
    named = check_input(load_text(POD.replace("name: web", "generateName: web-")))
    assert named.problems == ()
    rules = "    restartPolicyRules: [{action: RestartAllContainers}]\n    restartPolicy: Never\n"
    gates = Gates({"ContainerRestartRules": False, "RestartAllContainersOnContainerExits": False})
    assert check_input(load_text(POD + rules), gates=gates).problems == ()
    assert len(check_input(load_text(POD + rules)).problems) == 1


def test_samples_load(data):
    loaded = load([data / "crash.yaml", data / "job.yaml", data / "ml.yaml"])
    assert check_input(loaded).raise_problems().warnings == ()
    assert len(loaded.pods) == 3


def test_nearest():
    assert nearest("IMAGE", ["image", "name"]) == "image"
    assert nearest("zzz", ["image", "name"]) == ""


def test_a_namespace_that_is_no_text_is_refused():
    (problem,) = load_text(POD.replace("name: web", "name: web\n  namespace: no")).problems
    assert problem.path == "metadata.namespace"


def test_strict_problems_have_a_bound():
    problems = check_strict(Pod, {f"x{n}": 1 for n in range(300)})
    assert len(problems) == 100


def test_limits_are_named():
    assert manifests.MAX_PROBLEMS == 500


words = st.sampled_from(
    [
        "kind: Pod",
        "apiVersion: v1",
        "metadata:",
        "  name: a",
        "spec:",
        "  containers:",
        "  - name: b",
        "- x",
        "{",
        "}",
        "    image: c",
        "kind: List",
        "items:",
        "---",
        "\t",
        "'",
        "&a",
        "*a",
        "? ",
        ": ",
        "[",
        "!!int",
        "",
        "#",
        "\x00",
    ]
)


@settings(max_examples=150, deadline=None)
@given(st.lists(words, max_size=9).map("\n".join))
def test_any_text_is_loaded_or_refused_without_a_traceback(text):
    check_input(load_text(text))


@settings(max_examples=80, deadline=None)
@given(
    st.recursive(
        st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(max_size=3)),
        lambda inner: st.one_of(
            st.lists(inner, max_size=3),
            st.dictionaries(
                st.sampled_from(["spec", "metadata", "containers", "name", "env"]), inner, max_size=3
            ),
        ),
        max_leaves=12,
    )
)
def test_strict_agrees_with_the_codec_on_any_value(obj):
    from kubelet_emu.api.codec import DecodeError, pod_from_json

    problems = check_strict(Pod, obj)
    try:
        pod_from_json(obj)
    except DecodeError:
        assert problems
    else:
        assert all(problem.message.startswith("unknown field") for problem in problems)
