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

// root is the module's root, relative to this package's folder.
const root = "../.."

// sign is evidence of a component that acts on a row: a word in the sources of a folder, or a
// folder. The file that lists what the node agent does not support is ignored.
type sign struct{ folder, word string }

// signs has the evidence of components that are not controllers. The key is the row's By, or its By
// and Field where many rows have the same By.
var signs = map[string]sign{
	"network plugin":            {"services/nodeagent/internal/policy", ""},
	"eviction manager":          {"services/nodeagent/internal/eviction", ""},
	"API Priority and Fairness": {"services/apiserver", `ResponseHeaderMatchedFlowSchemaUID|(?i:X-Kubernetes-PF-)|fairqueuing`},
	"DynamicResources":          {"services/scheduler", `"DynamicResources"`},
	"DefaultPreemption":         {"services/scheduler", `"DefaultPreemption"`},
	"GangScheduling":            {"services/scheduler", `\.SchedulingGroup\b`},
	"CoordinatedLeaderElection": {"services/apiserver/internal", `\.PreferredHolder\b`},
	"EvictionRequestAPI":        {"services/apiserver/internal/registry", `\.EvictionResponders\b`},

	"kubelet CSIDriver":                                         {"services/nodeagent", `\bCSIDriver\b`},
	"kubelet CSINode":                                           {"services/nodeagent", `\bCSINode\b`},
	"kubelet PodCertificateRequest":                             {"services/nodeagent", `\.PodCertificate\b`},
	"kubelet RuntimeClass":                                      {"services/nodeagent", `\.RuntimeClassName\b`},
	"kubelet pods/resize":                                       {"services/nodeagent/internal/podlifecycle", `UpdateContainerResources`},
	"kubelet spec.securityContext.seLinuxChangePolicy":          {"services/nodeagent", `\.SELinuxChangePolicy\b`},
	"kubelet spec.containers[].volumeMounts[].bindMountOptions": {"services/nodeagent", `\.BindMountOptions\b`},
	"kubelet spec.containers[].{livenessProbe,readinessProbe,startupProbe,lifecycle}.httpGet.protocol": {"services/nodeagent", `\.HTTPGet\.Protocol\b`},
	"kubelet spec.containers[].{livenessProbe,readinessProbe,startupProbe}.grpc.mode":                  {"services/nodeagent", `\.GRPC\.Mode\b`},
	"kubelet spec.volumes[].emptyDir.mode":                                                             {"services/nodeagent", `\.EmptyDir\.Mode\b`},
	"kubelet spec.containers[].lifecycle.stopSignal":                                                   {"services/nodeagent", `\.StopSignal\b`},
	"kubelet spec.volumes[].{configMap,secret,downwardAPI,projected}.defaultUser":                      {"services/nodeagent", `\.DefaultUser\b`},
}

// TestNotActedOn fails if a component exists that acts on something that clients are told is
// ignored.
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
				t.Errorf("%s: %q is neither a Kubernetes controller nor in signs", of(kind, row), name)
			case there:
				t.Errorf("%s: %s exists; delete the row from libs/scheme/notactedon_rows.go", of(kind, row), row.By)
			}
			used[name] = true
		}
	}
	for name := range signs {
		if !used[name] {
			t.Errorf("no row uses the sign of %q", name)
		}
	}
}

// of returns what a row is about.
func of(kind *scheme.Kind, row scheme.NotActedOn) string {
	switch {
	case row.Subresource != "":
		return kind.Resource + "/" + row.Subresource
	case row.Field != "":
		return row.Field
	}
	return kind.Kind
}

// isThere reports whether the component that a row names exists, and whether that can be
// determined.
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

// exempt reports whether a file is in a package that covers every kind, whether anything acts on
// the kind or not.
func exempt(path string) bool {
	for _, room := range []string{"kinds", "http/openapi"} {
		if strings.Contains(filepath.ToSlash(path), "internal/"+room+"/") {
			return true
		}
	}
	return false
}

// acts names what acts on the kinds without a NotActedOn row: a controller, or a component
// described here.
var acts = map[string]string{
	"Namespace": "namespace-controller", "ServiceAccount": "serviceaccount-controller",
	"ResourceQuota": "resourcequota-controller", "Deployment": "deployment-controller", "ReplicaSet": "replicaset-controller",
	"PodDisruptionBudget": "disruption-controller", "ReplicationController": "replicationcontroller-controller",
	"ClusterTrustBundle": "node agent", "ClusterRole": "clusterrole-aggregation-controller", "ServiceCIDR": "service-cidr-controller",
	"Node": "node-lifecycle-controller", "PersistentVolume": "persistentvolume-binder-controller",
	"PersistentVolumeClaim": "persistentvolume-binder-controller",
	"StorageClass":          "persistentvolume-binder-controller",
	"VolumeAttributesClass": "volumeattributesclass-protection-controller", "Job": "job-controller",
	"CronJob": "cronjob-controller", "StatefulSet": "statefulset-controller", "DaemonSet": "daemonset-controller",
	"CSIStorageCapacity":        "scheduler",
	"VolumeAttachment":          "persistentvolume-attach-detach-controller",
	"HorizontalPodAutoscaler":   "horizontal-pod-autoscaler-controller",
	"StorageVersionMigration":   "storage-version-migrator-controller",
	"CertificateSigningRequest": "certificatesigningrequest-signing-controller", "Pod": "scheduler, node agent",
	"ConfigMap": "node agent", "Secret": "node agent",
	"Service": "node agent", "EndpointSlice": "node agent", "Endpoints": "endpointslice-mirroring-controller",
	"LimitRange": "admission", "APIService": "apiserver",
	"CustomResourceDefinition": "apiserver", "ValidatingWebhookConfiguration": "admission",
	"MutatingWebhookConfiguration": "admission", "ClusterRoleBinding": "authorizer", "Role": "authorizer",
	"RoleBinding": "authorizer", "IPAddress": "allocator of Services",
	"ValidatingAdmissionPolicy": "validatingadmissionpolicy-status-controller", "ValidatingAdmissionPolicyBinding": "admission",
	"MutatingAdmissionPolicy": "admission", "MutatingAdmissionPolicyBinding": "admission",
	"Ingress": "for ingress controllers, which follow EndpointSlices", "IngressClass": "for ingress controllers",
	"Event": "for people", "Lease": "for programs", "PodTemplate": "for programs", "ControllerRevision": "for programs",
}

// TestEveryKindIsAccountedFor fails for a kind on which nothing is known to act and whose table row does
// not say so.
func TestEveryKindIsAccountedFor(t *testing.T) {
	names := controllers.Names()
	for _, kind := range scheme.New().Kinds() {
		whole := slices.ContainsFunc(kind.NotActedOn, func(row scheme.NotActedOn) bool { return row.Field == "" && row.Subresource == "" })
		by := acts[kind.Kind]
		switch {
		case kind.Virtual:
		case whole && by != "":
			t.Errorf("%s is listed as ignored, but %s acts on it", kind.Kind, by)
		case !whole && by == "":
			t.Errorf("%s: nothing is known to act on it, and no row says so", kind.Kind)
		case strings.HasSuffix(by, "-controller") && !slices.Contains(names, by):
			t.Errorf("%s: there is no %s", kind.Kind, by)
		}
	}
}
