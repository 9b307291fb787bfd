package podlifecycle

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/garboard/garboard/services/nodeagent/internal/podfiles"
)

const maxHostname = 63

func hostname(pod *corev1.Pod) string {
	name := pod.Spec.Hostname
	if name == "" {
		name = pod.Name
	}
	if len(name) > maxHostname {
		name = strings.TrimRight(name[:maxHostname], "-.")
	}
	return name
}

// warnOfDNS records an Event if a pod wants the cluster's DNS and gets the node's.
func (l *Lifecycle) warnOfDNS(pod *corev1.Pod) {
	switch policy := pod.Spec.DNSPolicy; {
	case len(l.cfg.ClusterDNS) > 0, policy == corev1.DNSClusterFirst && pod.Spec.HostNetwork:
	case policy == corev1.DNSClusterFirst, policy == corev1.DNSClusterFirstWithHostNet:
		l.cfg.Events.Event(pod, corev1.EventTypeWarning, "MissingClusterDNS",
			"pod: %q. kubelet does not have ClusterDNS IP configured and cannot create Pod using %q policy. Falling back to %q policy.",
			formatPod(pod), policy, corev1.DNSDefault)
	}
}

// writeHosts writes the pod's /etc/hosts and returns its path on the host.
func (l *Lifecycle) writeHosts(pod *corev1.Pod) (string, error) {
	path := filepath.Join(l.podDir(pod), "etc-hosts")
	// Written in place: containers of the pod have this very file mounted. They may have written to
	// it too, so it is never read.
	if err := podfiles.Overwrite(path, []byte(l.hosts(pod)), 0o644); err != nil {
		return "", fmt.Errorf("writing the pod's hosts file: %w", err)
	}
	return path, nil
}

func (l *Lifecycle) hosts(pod *corev1.Pod) string {
	var b strings.Builder
	if pod.Spec.HostNetwork {
		b.WriteString("# Kubernetes-managed hosts file (host network).\n")
		if text, err := os.ReadFile("/etc/hosts"); err == nil {
			b.Write(text)
		}
	} else {
		b.WriteString("# Kubernetes-managed hosts file.\n" +
			"127.0.0.1\tlocalhost\n" +
			"::1\tlocalhost ip6-localhost ip6-loopback\n" +
			"fe00::0\tip6-localnet\n" +
			"fe00::0\tip6-mcastprefix\n" +
			"fe00::1\tip6-allnodes\n" +
			"fe00::2\tip6-allrouters\n")
		names := hostname(pod)
		if pod.Spec.Subdomain != "" {
			names = fmt.Sprintf("%s.%s.%s.svc.%s\t%s", names, pod.Spec.Subdomain, pod.Namespace, l.cfg.ClusterDomain, names)
		}
		for _, ip := range pod.Status.PodIPs {
			fmt.Fprintf(&b, "%s\t%s\n", ip.IP, names)
		}
	}
	if len(pod.Spec.HostAliases) > 0 {
		b.WriteString("\n# Entries added by HostAliases.\n")
		for _, alias := range pod.Spec.HostAliases {
			fmt.Fprintf(&b, "%s\t%s\n", alias.IP, strings.Join(alias.Hostnames, "\t"))
		}
	}
	return b.String()
}
