package placement_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"sigs.k8s.io/yaml"

	"github.com/garboard/garboard/services/scheduler/internal/clusterview"
	"github.com/garboard/garboard/services/scheduler/internal/placement"
)

// stored holds the objects of a test, parsed from YAML.
type stored struct {
	Claims     []corev1.PersistentVolumeClaim
	Volumes    []corev1.PersistentVolume
	Classes    []storagev1.StorageClass
	Drivers    []storagev1.CSIDriver
	Capacities []storagev1.CSIStorageCapacity
}

func storage(t *testing.T, text string) placement.Storage {
	t.Helper()
	var s stored
	if err := yaml.UnmarshalStrict([]byte(text), &s); err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	return placement.Storage{
		Claim: func(namespace, name string) *corev1.PersistentVolumeClaim {
			for i := range s.Claims {
				if s.Claims[i].Name == name && namespace == "default" {
					s.Claims[i].Namespace = namespace
					return &s.Claims[i]
				}
			}
			return nil
		},
		Volume: func(name string) *corev1.PersistentVolume {
			for i := range s.Volumes {
				if s.Volumes[i].Name == name {
					return &s.Volumes[i]
				}
			}
			return nil
		},
		Class: func(name string) *storagev1.StorageClass {
			for i := range s.Classes {
				if s.Classes[i].Name == name {
					return &s.Classes[i]
				}
			}
			return nil
		},
		Driver: func(name string) *storagev1.CSIDriver {
			for i := range s.Drivers {
				if s.Drivers[i].Name == name {
					return &s.Drivers[i]
				}
			}
			return nil
		},
		Capacities: func(class string) (found []*storagev1.CSIStorageCapacity) {
			for i := range s.Capacities {
				if s.Capacities[i].StorageClassName == class {
					found = append(found, &s.Capacities[i])
				}
			}
			return found
		},
	}
}

const (
	claiming = `{containers: [{name: c}], volumes: [{name: e, emptyDir: {}}, {name: v, persistentVolumeClaim: {claimName: data}}]}`
	template = `{containers: [{name: c}], volumes: [{name: v, ephemeral: {volumeClaimTemplate: {}}}]}`
	bound    = `metadata: {name: data, annotations: {pv.kubernetes.io/bind-completed: "yes"}}, spec: {volumeName: disk}`
	classes  = `Classes: [{metadata: {name: late}, volumeBindingMode: WaitForFirstConsumer}, {metadata: {name: soon}, volumeBindingMode: Immediate}]`
)

// TestClaims checks that errors in a pod's claims are reported in kube-scheduler's words.
func TestClaims(t *testing.T) {
	owned := func(kind, uid string) string {
		return fmt.Sprintf(`metadata: {name: p-v, ownerReferences: [{controller: true, kind: %s, name: p, uid: %q}]}`, kind, uid)
	}
	for _, tt := range []struct{ name, pod, storage, want string }{
		{"no such claim", claiming, `{}`, `persistentvolumeclaim "data" not found`},
		{"no such claim, after one that waits", `{containers: [{name: c}], volumes: [{name: v, ephemeral: {volumeClaimTemplate: {}}}, {name: w, persistentVolumeClaim: {claimName: data}}]}`,
			`{}`, `persistentvolumeclaim "data" not found`},
		{"lost", claiming, `{Claims: [{metadata: {name: data}, spec: {volumeName: disk}, status: {phase: Lost}}]}`,
			`persistentvolumeclaim "data" bound to non-existent persistentvolume "disk"`},
		{"being deleted", claiming, `{Claims: [{metadata: {name: data, deletionTimestamp: "2026-01-01T00:00:00Z"}}]}`, `persistentvolumeclaim "data" is being deleted`},
		{"not bound", claiming, `{Claims: [{metadata: {name: data}}]}`, "pod has unbound immediate PersistentVolumeClaims"},
		{"not bound, of a class", claiming, `{` + classes + `, Claims: [{metadata: {name: data}, spec: {storageClassName: soon}}]}`, "pod has unbound immediate PersistentVolumeClaims"},
		{"not bound, of a missing class", claiming, `{Claims: [{metadata: {name: data}, spec: {storageClassName: gone}}]}`, "pod has unbound immediate PersistentVolumeClaims"},
		{"names its volume, but is not bound", claiming, `{` + classes + `, Claims: [{metadata: {name: data}, spec: {storageClassName: late, volumeName: disk}}], Volumes: [{metadata: {name: disk}}]}`,
			"pod has unbound immediate PersistentVolumeClaims"},
		{"waits for a consumer", claiming, `{` + classes + `, Claims: [{metadata: {name: data}, spec: {storageClassName: late}}]}`,
			"2 node(s) didn't find available persistent volumes to bind"},
		{"waits for a consumer by annotation", claiming, `{` + classes + `, Claims: [{metadata: {name: data, annotations: {volume.beta.kubernetes.io/storage-class: late}}, spec: {storageClassName: soon}}]}`,
			"2 node(s) didn't find available persistent volumes to bind"},
		{"one waits, one is not bound", `{containers: [{name: c}], volumes: [{name: v, persistentVolumeClaim: {claimName: data}}, {name: w, persistentVolumeClaim: {claimName: logs}}]}`,
			`{` + classes + `, Claims: [{metadata: {name: data}, spec: {storageClassName: late}}, {metadata: {name: logs}}]}`, "pod has unbound immediate PersistentVolumeClaims"},
		{"bound to a volume that is gone", claiming, `{Claims: [{` + bound + `}]}`, `persistentvolume "disk" not found`},
		{"ephemeral, not created yet", template, `{}`, `waiting for ephemeral volume controller to create the persistentvolumeclaim "p-v"`},
		{"ephemeral, of another", template, `{Claims: [{metadata: {name: p-v}}]}`, "PVC default/p-v was not created for pod default/p (pod is not owner)"},
		{"ephemeral, of the pod before", template, `{Claims: [{` + owned("Pod", "before") + `}]}`, "PVC default/p-v was not created for pod default/p (pod is not owner)"},
		{"ephemeral, not bound", template, `{Claims: [{` + owned("Pod", "now") + `}]}`, "pod has unbound immediate PersistentVolumeClaims"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := pod(t, tt.pod)
			p.UID = "now"
			c := cluster(host("a", "z"), host("b", "z"))
			c.Storage = storage(t, tt.storage)
			node, err := placement.Place(p, c, first)
			var failure *placement.Failure
			if !errors.As(err, &failure) {
				t.Fatalf("got %v, %v from Place, want a failure", node, err)
			}
			if diff := cmp.Diff("0/2 nodes are available: "+tt.want+"."+fmt.Sprintf(noHelp, 2, 2), err.Error()); diff != "" {
				t.Errorf("message (-want +got):\n%s", diff)
			}
			if want := []placement.Filter{placement.VolumeBinding}; !slices.Equal(failure.Filters(), want) {
				t.Errorf("got filters %v, want %v", failure.Filters(), want)
			}
		})
	}
}

// TestBoundEphemeralClaims checks that claims which were created for a pod select nodes only by the
// affinity of their volumes.
func TestBoundEphemeralClaims(t *testing.T) {
	const claim = `{Claims: [{metadata: {name: p-v, annotations: {pv.kubernetes.io/bind-completed: "yes"}, ownerReferences: [{controller: true, kind: Pod, name: p, uid: now}]}, spec: {volumeName: disk}}]`
	p := pod(t, template)
	p.UID = "now"
	c := cluster(host("a", "z1"), cordoned(host("b", "z1")))
	c.Storage = storage(t, claim+`}`)
	want := "0/2 nodes are available: 1 node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s), 1 node(s) were unschedulable." + fmt.Sprintf(noHelp, 2, 2)
	if _, err := placement.Place(p, c, first); err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	c.Storage = storage(t, claim+`, Volumes: [{metadata: {name: disk, labels: {topology.kubernetes.io/zone: z2}}}]}`)
	if node, err := placement.Place(p, c, first); err != nil || node.Name != "a" {
		t.Errorf("got %v, %v, want a", node, err)
	}
}

// TestBoundClaims checks that a pod goes where the volumes of its claims can be reached.
func TestBoundClaims(t *testing.T) {
	other := pod(t, claiming)
	other.Name = "other"
	on := func(spec string) string {
		return `{Claims: [{` + bound + `}], Volumes: [{metadata: {name: disk}, spec: {nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [` + spec + `]}]}}}}]}`
	}
	in := func(labels string) string {
		return `{Claims: [{` + bound + `}], Volumes: [{metadata: {name: disk, labels: {` + labels + `}}}]}`
	}
	once := `{Claims: [{metadata: {name: data, annotations: {pv.kubernetes.io/bind-completed: "yes"}}, spec: {volumeName: disk, accessModes: [ReadWriteOncePod]}}], Volumes: [{metadata: {name: disk}}]}`
	unzoned := changed(host("c", ""), func(n *corev1.Node) { delete(n.Labels, corev1.LabelTopologyZone) })
	for _, tt := range []struct {
		name, storage string
		nodes         []*clusterview.Node
		on            string // the node, or
		want          string // the message
		filter        placement.Filter
	}{
		{"any node", `{Claims: [{` + bound + `}], Volumes: [{metadata: {name: disk}}]}`, []*clusterview.Node{host("a", "z1")}, "a", "", ""},
		{"by the volume's affinity", on(`{key: kubernetes.io/hostname, operator: In, values: [b]}`), []*clusterview.Node{host("a", "z1"), host("b", "z1")}, "b", "", ""},
		{"none by the volume's affinity", on(`{key: kubernetes.io/hostname, operator: In, values: [x]}`), []*clusterview.Node{host("a", "z1"), host("b", "z1")}, "",
			"0/2 nodes are available: 2 node(s) didn't match PersistentVolume's node affinity." + fmt.Sprintf(noHelp, 2, 2), placement.VolumeBinding},
		{"an unreadable affinity", on(`{key: a, operator: Like}`), []*clusterview.Node{host("a", "z1")}, "",
			"0/1 nodes are available: 1 node(s) didn't match PersistentVolume's node affinity." + fmt.Sprintf(noHelp, 1, 1), placement.VolumeBinding},
		{"by the volume's zone", in(`topology.kubernetes.io/zone: z2`), []*clusterview.Node{host("a", "z1"), host("b", "z2")}, "b", "", ""},
		{"by one of the volume's zones, under their old name", in(`failure-domain.beta.kubernetes.io/zone: z3__ z2`), []*clusterview.Node{host("a", "z1"), host("b", "z2")}, "b", "", ""},
		{"none in the volume's zone", in(`topology.kubernetes.io/zone: z9`), []*clusterview.Node{host("a", "z1")}, "",
			"0/1 nodes are available: 1 node(s) had no available volume zone." + fmt.Sprintf(noHelp, 1, 1), placement.VolumeZone},
		{"none in the volume's region", in(`topology.kubernetes.io/region: r`), []*clusterview.Node{host("a", "z1")}, "",
			"0/1 nodes are available: 1 node(s) had no available volume zone." + fmt.Sprintf(noHelp, 1, 1), placement.VolumeZone},
		{"a label that says nothing", in(`topology.kubernetes.io/zone: "z2__"`), []*clusterview.Node{host("a", "z1")}, "a", "", ""},
		{"a node without zones", in(`topology.kubernetes.io/zone: z9`), []*clusterview.Node{host("a", "z1"), unzoned}, "c", "", ""},
		{"for one pod", once, []*clusterview.Node{host("a", "z1", inNamespace(other, "elsewhere"))}, "a", "", ""},
		{"for one pod, in use", once, []*clusterview.Node{host("a", "z1", other), host("b", "z1")}, "",
			"0/2 nodes are available: 2 node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod." + fmt.Sprintf(noVictims, 2, 2),
			placement.VolumeRestrictions},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := cluster(tt.nodes...)
			c.Storage = storage(t, tt.storage)
			node, err := placement.Place(pod(t, claiming), c, first)
			var failure *placement.Failure
			switch {
			case tt.on != "":
				if err != nil || node.Name != tt.on {
					t.Errorf("got node %v, %v; want %s", node, err, tt.on)
				}
			case !errors.As(err, &failure):
				t.Errorf("got node %v, %v", node, err)
			default:
				if diff := cmp.Diff(tt.want, err.Error()); diff != "" {
					t.Errorf("message (-want +got):\n%s", diff)
				}
				if !slices.Equal(failure.Filters(), []placement.Filter{tt.filter}) {
					t.Errorf("got filters %v, want %s", failure.Filters(), tt.filter)
				}
			}
		})
	}
}
