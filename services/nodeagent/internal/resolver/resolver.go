// Package resolver makes the resolver configuration (resolv.conf) of a pod from the cluster's, the
// node's and the pod's own.
package resolver

import (
	"os"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/garboard/garboard/services/nodeagent/internal/runtime"
)

// What resolvers read of a resolv.conf: name servers, search domains, the length of one, and of all
// with a blank between two (the limits of Kubernetes' validation).
const (
	maxServers       = 3
	maxSearches      = 32
	maxSearch        = 253
	maxSearchesChars = 2048
)

// Config is what the configurations of all pods of a node are made of.
type Config struct {
	// Path is the path of the node's own configuration.
	Path string
	// ClusterDNS and ClusterDomain apply to pods with dnsPolicy ClusterFirst.
	ClusterDNS    []string
	ClusterDomain string
}

// Pod returns the configuration of a pod, as the kubelet makes it.
func (c Config) Pod(pod *corev1.Pod) *runtime.DNSConfig {
	policy := pod.Spec.DNSPolicy
	if policy == corev1.DNSClusterFirst && pod.Spec.HostNetwork {
		policy = corev1.DNSDefault
	}
	cfg := hostResolver(c.Path)
	switch {
	case policy == corev1.DNSNone:
		cfg = runtime.DNSConfig{}
	case policy != corev1.DNSDefault && len(c.ClusterDNS) > 0:
		cfg.Servers = c.ClusterDNS
		if domain := c.ClusterDomain; domain != "" {
			cfg.Searches = unique([]string{pod.Namespace + ".svc." + domain, "svc." + domain, domain}, cfg.Searches)
		}
		cfg.Options = []string{"ndots:5"}
	}
	if own := pod.Spec.DNSConfig; own != nil {
		cfg.Servers = unique(cfg.Servers, own.Nameservers)
		cfg.Searches = unique(cfg.Searches, own.Searches)
		for _, o := range own.Options {
			text := o.Name
			if o.Value != nil && *o.Value != "" {
				text += ":" + *o.Value
			}
			cfg.Options = setOption(cfg.Options, text)
		}
	}
	cfg.Servers = cfg.Servers[:min(len(cfg.Servers), maxServers)]
	cfg.Searches = fitting(cfg.Searches)
	return &cfg
}

// unique returns both lists without repetitions.
func unique(first, second []string) []string {
	var all []string
	for _, text := range slices.Concat(first, second) {
		if !slices.Contains(all, text) {
			all = append(all, text)
		}
	}
	return all
}

// setOption returns the options with this one, which replaces another value of it.
func setOption(options []string, option string) []string {
	name, _, _ := strings.Cut(option, ":")
	kept := slices.DeleteFunc(slices.Clone(options), func(old string) bool {
		oldName, _, _ := strings.Cut(old, ":")
		return oldName == name
	})
	return append(kept, option)
}

// fitting returns the search domains that resolvers read.
func fitting(searches []string) []string {
	searches = searches[:min(len(searches), maxSearches)]
	searches = slices.DeleteFunc(slices.Clone(searches), func(search string) bool { return len(search) > maxSearch })
	for len(strings.Join(searches, " ")) > maxSearchesChars {
		searches = searches[:len(searches)-1]
	}
	return searches
}

// hostResolver returns the host's resolver configuration; empty if there is none.
func hostResolver(path string) runtime.DNSConfig {
	text, err := os.ReadFile(path)
	if err != nil {
		return runtime.DNSConfig{}
	}
	return parseResolver(string(text))
}

func parseResolver(text string) runtime.DNSConfig {
	var cfg runtime.DNSConfig
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) == 0 {
			continue
		}
		switch fields[0] {
		case "nameserver":
			if len(fields) > 1 {
				cfg.Servers = append(cfg.Servers, fields[1])
			}
		case "search":
			cfg.Searches = nil // The last line applies.
			for _, search := range fields[1:] {
				if search != "." {
					cfg.Searches = append(cfg.Searches, strings.TrimSuffix(search, "."))
				}
			}
		case "options":
			for _, option := range fields[1:] {
				cfg.Options = setOption(cfg.Options, option)
			}
		}
	}
	return cfg
}
