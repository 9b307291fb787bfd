package promises_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/controllers"
)

// root is the module's root, seen from this package's folder.
const root = "../.."

// sign is where a part that acts on a row would show: a word in the sources of a folder, or a folder.
// The file of what the node agent refuses does not count.
type sign struct{ folder, word string }

// signs are those of parts that are no controllers, by the row's By, or by its By and Field where many
// rows have the same By.
var signs = map[string]sign{
	"kube-proxy":                 {"services/nodeagent/internal/proxy", ""},
	"network plugin":             {"services/nodeagent/internal/policy", ""},
	"eviction manager":           {"services/nodeagent/internal/eviction", ""},
	"cluster DNS":                {"services/nodeagent/internal/dns", ""},
	"ValidatingAdmissionWebhook": {"services/apiserver/internal/admission", `"ValidatingAdmissionWebhook"`},
	"MutatingAdmissionWebhook":   {"services/apiserver/internal/admission", `"MutatingAdmissionWebhook"`},
	"ValidatingAdmissionPolicy":  {"services/apiserver/internal/admission", `"ValidatingAdmissionPolicy"`},
	"MutatingAdmissionPolicy":    {"services/apiserver/internal/admission", `"MutatingAdmissionPolicy"`},
	"API Priority and Fairness":  {"services/apiserver", `ResponseHeaderMatchedFlowSchemaUID|(?i:X-Kubernetes-PF-)|fairqueuing`},
	"kube-aggregator":            {"services/apiserver/internal/aggregation", ""},
	"DynamicResources":           {"services/scheduler", `"DynamicResources"`},
	"DefaultPreemption":          {"services/scheduler", `"DefaultPreemption"`},
	"GangScheduling":             {"services/scheduler", `\.SchedulingGroup\b`},
	"EvictionRequestAPI":         {"services/apiserver/internal/registry", `\.EvictionResponders\b`},

	"kubelet ClusterTrustBundle":                                                  {"services/nodeagent", `\.ClusterTrustBundle\b`},
	"kubelet PodCertificateRequest":                                               {"services/nodeagent", `\.PodCertificate\b`},
	"kubelet RuntimeClass":                                                        {"services/nodeagent", `\.RuntimeClassName\b`},
	"kubelet pods/resize":                                                         {"services/nodeagent/internal/lifecycle", `UpdateContainerResources`},
	"kubelet pods/ephemeralcontainers":                                            {"services/nodeagent/internal/podactions", `EphemeralContainer`},
	"kubelet spec.podCIDR":                                                        {"services/nodeagent/internal", `\.Spec\.PodCIDR`},
	"kubelet spec.securityContext.appArmorProfile":                                {"services/nodeagent", `AppArmor`},
	"kubelet spec.containers[].securityContext.appArmorProfile":                   {"services/nodeagent", `AppArmor`},
	"kubelet spec.securityContext.fsGroupChangePolicy":                            {"services/nodeagent", `\.FSGroupChangePolicy\b`},
	"kubelet spec.securityContext.seLinuxChangePolicy":                            {"services/nodeagent", `\.SELinuxChangePolicy\b`},
	"kubelet spec.containers[].volumeMounts[].bindMountOptions":                   {"services/nodeagent", `\.BindMountOptions\b`},
	"kubelet spec.volumes[].{configMap,secret,downwardAPI,projected}.defaultUser": {"services/nodeagent", `\.DefaultUser\b`},
	"kubelet metadata.annotations[kubernetes.io/{ingress,egress}-bandwidth]":      {"services/nodeagent", `gress-bandwidth`},
}

// TestNotActedOn fails when a part is there that acts on what clients are told nothing acts on.
func TestNotActedOn(t *testing.T) {
	used := map[string]bool{}
	for _, kind := range scheme.New().Kinds() {
		for _, row := range kind.NotActedOn {
			name := row.By
			if row.By == "kubelet" {
				name += " " + of(kind, row)
			}
			there, known := isThere(t, row.By, name)
			switch {
			case !known:
				t.Errorf("%s: %q is neither a controller of Kubernetes nor in signs", of(kind, row), name)
			case there:
				t.Errorf("%s: %s is there; delete the row from libs/scheme/notactedon_rows.go", of(kind, row), row.By)
			}
			used[name] = true
		}
	}
	for name := range signs {
		if !used[name] {
			t.Errorf("the sign of %q is no row's", name)
		}
	}
}

// of is what a row is about.
func of(kind *scheme.Kind, row scheme.NotActedOn) string {
	switch {
	case row.Subresource != "":
		return kind.Resource + "/" + row.Subresource
	case row.Field != "":
		return row.Field
	}
	return kind.Kind
}

// isThere reports whether the part that a row names is there, and whether there is a way to tell.
func isThere(t *testing.T, by, name string) (there, known bool) {
	t.Helper()
	if s, known := signs[name]; known {
		return s.shows(t), true
	}
	return slices.Contains(controllers.Names(), by), strings.HasSuffix(by, "-controller")
}

func (s sign) shows(t *testing.T) bool {
	t.Helper()
	folder := filepath.Join(root, filepath.FromSlash(s.folder))
	if s.word == "" {
		_, err := os.Stat(folder)
		return err == nil
	}
	word, found, read := regexp.MustCompile(s.word), false, 0
	err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") ||
			strings.HasSuffix(path, "unsupported.go") || strings.Contains(path, "generated") || exempt(path) {
			return err
		}
		source, err := os.ReadFile(path)
		read++
		found = found || word.Match(source)
		return err
	})
	if err != nil || read == 0 {
		t.Errorf("reading %s: %d files, %v", s.folder, read, err)
	}
	return found
}

// exempt are the rooms that hold every kind, whether something acts on it or not.
func exempt(path string) bool {
	for _, room := range []string{"registry/strategy", "validation", "defaults", "columns", "samples", "openapi"} {
		if strings.Contains(filepath.ToSlash(path), "internal/"+room+"/") {
			return true
		}
	}
	return false
}

// acts says what acts on the kinds of which nothing is said: a controller, or a part by its name here.
var acts = map[string]string{
	"Namespace": "namespace-controller", "ServiceAccount": "serviceaccount-controller", "ResourceQuota": "resourcequota-controller",
	"Deployment": "deployment-controller", "ReplicaSet": "replicaset-controller", "PodDisruptionBudget": "disruption-controller",
	"ClusterRole": "clusterrole-aggregation-controller", "ServiceCIDR": "service-cidr-controller", "Node": "node-lifecycle-controller",
	"CertificateSigningRequest": "certificatesigningrequest-signing-controller",
	"Pod":                       "scheduler, node agent", "ConfigMap": "node agent", "Secret": "node agent", "LimitRange": "admission", "APIService": "discovery",
	"ClusterRoleBinding": "authorizer", "Role": "authorizer", "RoleBinding": "authorizer", "IPAddress": "allocator of Services",
	"Event": "for people", "Lease": "for programs", "PodTemplate": "for programs", "ControllerRevision": "for programs",
}

// TestEveryKindIsToldOf fails for a kind on which nothing is known to act, and which does not say so.
func TestEveryKindIsToldOf(t *testing.T) {
	names := controllers.Names()
	for _, kind := range scheme.New().Kinds() {
		whole := slices.ContainsFunc(kind.NotActedOn, func(row scheme.NotActedOn) bool { return row.Field == "" && row.Subresource == "" })
		by := acts[kind.Kind]
		switch {
		case kind.Virtual:
		case whole && by != "":
			t.Errorf("%s is said to be ignored, and %s acts on it", kind.Kind, by)
		case !whole && by == "":
			t.Errorf("%s: what acts on it?", kind.Kind)
		case strings.HasSuffix(by, "-controller") && !slices.Contains(names, by):
			t.Errorf("%s: %s is not there", kind.Kind, by)
		}
	}
}
