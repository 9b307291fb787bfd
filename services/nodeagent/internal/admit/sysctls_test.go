package admit_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/garboard/garboard/services/nodeagent/internal/admit"
)

func sets(names ...string) *corev1.Pod {
	pod := wants("0")
	pod.Spec.SecurityContext = &corev1.PodSecurityContext{}
	for _, name := range names {
		pod.Spec.SecurityContext.Sysctls = append(pod.Spec.SecurityContext.Sysctls, corev1.Sysctl{Name: name, Value: "1"})
	}
	return pod
}

func TestSysctls(t *testing.T) {
	host := func(pod *corev1.Pod) *corev1.Pod {
		pod.Spec.HostNetwork, pod.Spec.HostIPC = true, true
		return pod
	}
	no := false
	own := sets("user.max_user_namespaces")
	own.Spec.HostUsers = &no
	for name, c := range map[string]struct {
		kernel  string
		unsafe  []string
		pod     *corev1.Pod
		message string
	}{
		"none":                      {"6.1.0", nil, wants("0"), ""},
		"safe":                      {"6.1.0-18-amd64", nil, sets("net.ipv4.tcp_syncookies", "kernel.shm_rmid_forced", "net.ipv4.tcp_rmem"), ""},
		"safe, by slashes":          {"6.1.0", nil, sets("net/ipv4/ip_unprivileged_port_start"), ""},
		"one of two":                {"6.1.0", nil, sets("net.ipv4.tcp_syncookies", "kernel.msgmax"), `forbidden sysctl: "kernel.msgmax" not allowlisted`},
		"old kernel":                {"4.14.0", nil, sets("net.ipv4.tcp_rmem"), `forbidden sysctl: "net.ipv4.tcp_rmem" not allowlisted`},
		"no kernel":                 {"", nil, sets("net.ipv4.tcp_rmem"), `forbidden sysctl: "net.ipv4.tcp_rmem" not allowlisted`},
		"allowed by name":           {"6.1.0", []string{"kernel.msgmax"}, sets("kernel.msgmax"), ""},
		"beside an allowed name":    {"6.1.0", []string{"kernel.msgmax"}, sets("kernel.msgmaxx"), `forbidden sysctl: "kernel.msgmaxx" not allowlisted`},
		"allowed by a prefix":       {"6.1.0", []string{"net.core.*"}, sets("net.core.somaxconn"), ""},
		"beside an allowed prefix":  {"6.1.0", []string{"net.core.*"}, sets("net.corex.a"), `forbidden sysctl: "net.corex.a" not allowlisted`},
		"the host's network":        {"6.1.0", nil, host(sets("net.ipv4.tcp_syncookies")), `forbidden sysctl: "net.ipv4.tcp_syncookies" not allowed with host Net enabled`},
		"the host's IPC, by prefix": {"6.1.0", []string{"kernel.shm*"}, host(sets("kernel.shmmax")), `forbidden sysctl: "kernel.shmmax" not allowed with host IPC enabled`},
		"the host's users":          {"6.1.0", []string{"user.*"}, sets("user.max_user_namespaces"), `forbidden sysctl: "user.max_user_namespaces" not allowed with host User enabled`},
		"its own users":             {"6.1.0", []string{"user.*"}, own, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := admit.NewSysctls(c.kernel, c.unsafe)
			if err != nil {
				t.Fatal(err)
			}
			got := s.Check(c.pod)
			switch {
			case c.message == "" && got != nil:
				t.Errorf("rejected: %+v", got)
			case c.message != "" && (got == nil || got.Reason != "SysctlForbidden" || got.Message != c.message):
				t.Errorf("got %+v, want %s", got, c.message)
			}
		})
	}
	for _, pattern := range []string{"", "vm.swappiness", "kernel.*", "*", "NET.core", "net..x", "net.*.x", "net.core.*/../../x", strings.Repeat("net.", 100)} {
		if _, err := admit.NewSysctls("6.1.0", []string{pattern}); err == nil {
			t.Errorf("%q is accepted", pattern)
		}
	}
}

// FuzzSysctls: a pod that asks for any name gets only those on the list, and nothing that merely
// resembles one.
func FuzzSysctls(f *testing.F) {
	for _, name := range []string{"net.ipv4.tcp_syncookies", "net/ipv4/tcp_syncookies", "net.core.a", "kernel.shm", "net.core./../x", "", "*"} {
		f.Add(name)
	}
	s, err := admit.NewSysctls("6.1.0", []string{"net.core.*"})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, name string) {
		if s.Check(sets(name)) != nil {
			return
		}
		dotted := strings.ReplaceAll(name, "/", ".")
		if !strings.HasPrefix(dotted, "net.") && dotted != "kernel.shm_rmid_forced" {
			t.Errorf("%q may be set", name)
		}
	})
}
