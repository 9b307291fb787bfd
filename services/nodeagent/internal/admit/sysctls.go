package admit

import (
	"fmt"
	"regexp"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/component-helpers/node/util/sysctl"
)

// safeSysctls are the kernel parameters that any pod may set: they are namespaced and affect no
// other pod. The value is the first kernel for which that holds, if not for all (the kubelet's
// list, as of 1.37).
var safeSysctls = map[string]string{
	"kernel.shm_rmid_forced":              "",
	"net.ipv4.ip_local_port_range":        "",
	"net.ipv4.tcp_syncookies":             "",
	"net.ipv4.ping_group_range":           "",
	"net.ipv4.ip_unprivileged_port_start": "",
	"net.ipv4.ip_local_reserved_ports":    "3.16",
	"net.ipv4.tcp_keepalive_time":         "4.5",
	"net.ipv4.tcp_fin_timeout":            "4.6",
	"net.ipv4.tcp_keepalive_intvl":        "4.5",
	"net.ipv4.tcp_keepalive_probes":       "4.5",
	"net.ipv4.tcp_rmem":                   "4.15",
	"net.ipv4.tcp_wmem":                   "4.15",
	"net.ipv4.tcp_slow_start_after_idle":  "4.15",
	"net.ipv4.tcp_notsent_lowat":          "4.6",
}

const maxSysctl = 253

// sysctlPattern matches a name, or a prefix of names with a star at its end (PodSecurityPolicy's
// rule, which the kubelet keeps).
var sysctlPattern = regexp.MustCompile(`^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[./])*([a-z0-9][-_a-z0-9]*)?[a-z0-9*]$`)

// Sysctls are the kernel parameters that pods may set on a node. A nil *Sysctls allows none.
type Sysctls struct {
	names, prefixes map[string]sysctl.Namespace
}

// NewSysctls allows the safe parameters of a kernel, given its version ("6.1.0-18-amd64"), and
// those in unsafe: names, or prefixes that end in "*" (the kubelet's --allowed-unsafe-sysctls). A
// parameter that is not known to be namespaced is an error.
func NewSysctls(kernel string, unsafe []string) (*Sysctls, error) {
	s := &Sysctls{names: map[string]sysctl.Namespace{}, prefixes: map[string]sysctl.Namespace{}}
	running, err := version.ParseGeneric(kernel)
	for name, since := range safeSysctls {
		if since == "" || err == nil && running.AtLeast(version.MustParseGeneric(since)) {
			s.names[name], _, _ = sysctl.GetNamespace(name)
		}
	}
	for _, pattern := range unsafe {
		if len(pattern) > maxSysctl || !sysctlPattern.MatchString(pattern) {
			return nil, fmt.Errorf("sysctl %q must have at most %d characters and match regex %s", pattern, maxSysctl, sysctlPattern)
		}
		namespace, name, prefix := sysctl.GetNamespace(pattern)
		switch {
		case namespace == sysctl.UnknownNamespace:
			return nil, fmt.Errorf("the sysctls %q are not known to be namespaced", name)
		case prefix:
			s.prefixes[name] = namespace
		default:
			s.names[name] = namespace
		}
	}
	return s, nil
}

// Check decides whether the pod may set the parameters in its spec. nil means that it may.
func (s *Sysctls) Check(pod *corev1.Pod) *Rejection {
	if pod.Spec.SecurityContext == nil {
		return nil
	}
	for _, asked := range pod.Spec.SecurityContext.Sysctls {
		if err := s.allowed(sysctl.NormalizeName(asked.Name), &pod.Spec); err != nil {
			return &Rejection{"SysctlForbidden", fmt.Sprintf("forbidden sysctl: %v", err)}
		}
	}
	return nil
}

func (s *Sysctls) allowed(name string, spec *corev1.PodSpec) error {
	namespace, ok := s.namespace(name)
	if !ok {
		return fmt.Errorf("%q not allowlisted", name)
	}
	host := namespace == sysctl.IPCNamespace && spec.HostIPC ||
		namespace == sysctl.NetNamespace && spec.HostNetwork ||
		namespace == sysctl.UserNamespace && (spec.HostUsers == nil || *spec.HostUsers)
	if host {
		return fmt.Errorf("%q not allowed with host %s enabled", name, namespace)
	}
	return nil
}

// namespace returns the kernel namespace of an allowed parameter.
func (s *Sysctls) namespace(name string) (sysctl.Namespace, bool) {
	if s == nil {
		return sysctl.UnknownNamespace, false
	}
	if namespace, ok := s.names[name]; ok {
		return namespace, true
	}
	for prefix, namespace := range s.prefixes {
		if strings.HasPrefix(name, prefix) {
			return namespace, true
		}
	}
	return sysctl.UnknownNamespace, false
}
