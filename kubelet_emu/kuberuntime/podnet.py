"""Names and resolvers of a pod: host name, DNS settings, hosts file (pure).

Mirrors ``pkg/kubelet/network/dns/dns.go`` and, of ``pkg/kubelet/kubelet_pods.go``,
GeneratePodHostNameAndDomain and managedHostsFileContent (VOL-10).
"""

from collections.abc import Sequence

from attrs import frozen

from k8s_proto import runtime_v1_pb2 as cri
from kubelet_emu.api.types import HostAlias, Pod
from kubelet_emu.kuberuntime.seams import HostDns
from kubelet_emu.settings import KubeletSettings

__all__ = ["HostName", "dns_config", "dns_limit_texts", "host_name", "hosts_file", "missing_cluster_dns_text"]

_HOSTNAME_MAX = 63
_FQDN_MAX = 64
_MAX_NAMESERVERS = 3
_MAX_SEARCHES = 32
_MAX_SEARCH_CHARS = 2048
_MANAGED = (
    "127.0.0.1\tlocalhost\n"
    "::1\tlocalhost ip6-localhost ip6-loopback\n"
    "fe00::0\tip6-localnet\n"
    "fe00::0\tip6-mcastprefix\n"
    "fe00::1\tip6-allnodes\n"
    "fe00::2\tip6-allrouters\n"
)


@frozen
class HostName:
    """A pod's host name and DNS domain; ``kernel`` is the name the kernel gets."""

    name: str
    domain: str
    kernel: str


def host_name(pod: Pod, cluster_domain: str) -> HostName:
    """Host name, domain and kernel name of a pod that has its own network."""
    spec = pod.spec
    if spec.hostname_override:
        return HostName(spec.hostname_override, "", spec.hostname_override)
    name = (spec.hostname or pod.metadata.name)[:_HOSTNAME_MAX].rstrip("-.")
    domain = ""
    if spec.subdomain:
        domain = f"{spec.subdomain}.{pod.metadata.namespace}.svc.{cluster_domain}"
    full = f"{name}.{domain}"
    as_full = bool(spec.set_hostname_as_fqdn) and bool(domain) and len(full) <= _FQDN_MAX
    return HostName(name, domain, full if as_full else name)


def _alias_lines(aliases: Sequence[HostAlias]) -> str:
    if not aliases:
        return ""
    lines = "".join(f"{alias.ip}\t{chr(9).join(alias.hostnames)}\n" for alias in aliases)
    return f"\n# Entries added by HostAliases.\n{lines}"


def hosts_file(pod: Pod, pod_ips: Sequence[str], name: HostName, host_file: str) -> str:
    """Content of a container's /etc/hosts (VOL-10)."""
    aliases = _alias_lines(pod.spec.host_aliases)
    if pod.spec.host_network:
        return f"# Kubernetes-managed hosts file (host network).\n{host_file}{aliases}"
    own = f"{name.name}.{name.domain}\t{name.name}" if name.domain else name.name
    lines = "".join(f"{ip}\t{own}\n" for ip in pod_ips)
    return f"# Kubernetes-managed hosts file.\n{_MANAGED}{lines}{aliases}"


def missing_cluster_dns_text(pod: Pod, settings: KubeletSettings) -> str:
    """Event text where ClusterFirst is asked for and the kubelet knows no cluster DNS, else empty
    (EVT-10).
    """
    if settings.cluster_dns or pod.spec.dns_policy == "None" or not _cluster_first(pod):
        return ""
    named = f"{pod.metadata.name}_{pod.metadata.namespace}({pod.metadata.uid})"
    return (
        f'pod: "{named}". kubelet does not have ClusterDNS IP configured and cannot create Pod using '
        '"ClusterFirst" policy. Falling back to "Default" policy.'
    )


def _cluster_first(pod: Pod) -> bool:
    policy = pod.spec.dns_policy or "ClusterFirst"
    return policy == "ClusterFirstWithHostNet" or (policy == "ClusterFirst" and not pod.spec.host_network)


def dns_config(pod: Pod, settings: KubeletSettings, host: HostDns) -> cri.DNSConfig:
    """Servers, search path and options of a pod by its dnsPolicy, dnsConfig merged in, cut to the limits."""
    servers, searches, options = _dns_asked(pod, settings, host)
    return cri.DNSConfig(
        servers=servers[:_MAX_NAMESERVERS], searches=_searches_that_fit(searches), options=options
    )


def dns_limit_texts(pod: Pod, settings: KubeletSettings, host: HostDns) -> tuple[str, ...]:
    """Event texts about what the limits on servers and search paths have cut away (EVT-10)."""
    servers, searches, _ = _dns_asked(pod, settings, host)
    fitting = _searches_that_fit(searches)
    texts: list[str] = []
    if fitting != searches:
        texts.append(
            "Search Line limits were exceeded, some search paths have been omitted, "
            f"the applied search line is: {' '.join(fitting)}"
        )
    if len(servers) > _MAX_NAMESERVERS:
        texts.append(
            "Nameserver limits were exceeded, some nameservers have been omitted, "
            f"the applied nameserver line is: {' '.join(servers[:_MAX_NAMESERVERS])}"
        )
    return tuple(texts)


def _searches_that_fit(searches: tuple[str, ...]) -> tuple[str, ...]:
    """The first paths that fit into the search line, blanks between them counted."""
    fitting = searches[:_MAX_SEARCHES]
    while len(" ".join(fitting)) > _MAX_SEARCH_CHARS:
        fitting = fitting[:-1]
    return fitting


_DnsAsked = tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]


def _dns_asked(pod: Pod, settings: KubeletSettings, host: HostDns) -> _DnsAsked:
    servers: tuple[str, ...] = ()
    searches: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    if pod.spec.dns_policy == "None":
        pass
    elif _cluster_first(pod) and settings.cluster_dns:
        domain = settings.cluster_domain
        own = (f"{pod.metadata.namespace}.svc.{domain}", f"svc.{domain}", domain) if domain else ()
        servers, searches, options = settings.cluster_dns, (*own, *host.searches), ("ndots:5",)
    else:
        servers, searches, options = host.servers, host.searches, host.options
    given = pod.spec.dns_config
    if given is not None:
        servers = tuple(dict.fromkeys((*servers, *given.nameservers)))
        searches = tuple(dict.fromkeys((*searches, *given.searches)))
        named = {option.partition(":")[0]: option for option in options}
        for option in given.options:
            name = option.name or ""
            named[name] = f"{name}:{option.value}" if option.value else name
        options = tuple(named.values())
    return tuple(servers), tuple(searches), options
