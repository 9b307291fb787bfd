package volumes_test

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/garboard/garboard/libs/client/fake"
	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/nodeagent/internal/volumes"
)

// claims holds one claim and one volume.
type claims struct {
	claim *corev1.PersistentVolumeClaim
	pv    *corev1.PersistentVolume
}

func (c claims) Claim(_ context.Context, _, name string) (*corev1.PersistentVolumeClaim, error) {
	if c.claim == nil || c.claim.Name != name {
		return nil, apierrors.NewNotFound(corev1.Resource("persistentvolumeclaims"), name)
	}
	return c.claim, nil
}

func (c claims) PersistentVolume(_ context.Context, name string) (*corev1.PersistentVolume, error) {
	if c.pv == nil || c.pv.Name != name {
		return nil, apierrors.NewNotFound(corev1.Resource("persistentvolumes"), name)
	}
	return c.pv, nil
}

// folders records what it is asked for.
type folders struct{ calls []string }

func (f *folders) Provide(_ context.Context, v *corev1.PersistentVolume) (string, error) {
	if v.Spec.Local.Path == "/etc" {
		return "", errors.New("path outside")
	}
	f.calls = append(f.calls, "provide")
	return v.Spec.Local.Path, nil
}

func (f *folders) Own(_ context.Context, _ *corev1.PersistentVolume, _ int64, onMismatch bool) error {
	f.calls = append(f.calls, map[bool]string{true: "own on mismatch", false: "own"}[onMismatch])
	return nil
}

func bound() claims {
	return claims{
		claim: &corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "data", UID: "c"},
			Spec:       corev1.PersistentVolumeClaimSpec{VolumeName: "pv"}, Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound},
		},
		pv: &corev1.PersistentVolume{
			ObjectMeta: metav1.ObjectMeta{Name: "pv"},
			Spec: corev1.PersistentVolumeSpec{
				ClaimRef: &corev1.ObjectReference{UID: "c"}, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
				PersistentVolumeSource: corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: "/volumes/pv"}},
			},
		},
	}
}

func withClaims(t *testing.T, c claims) (*volumes.Volumes, *folders) {
	f := &folders{}
	return volumes.New(volumes.Config{
		Dir: t.TempDir(), References: references{}, Client: fake.New(scheme.New()), Claims: c, Folders: f, Simulated: true, Logger: slog.New(slog.DiscardHandler),
		NodeLabels: func() map[string]string { return map[string]string{corev1.LabelHostname: "n1"} },
	}), f
}

func aClaimVolume() corev1.VolumeSource {
	return corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}
}

// TestClaims: a pod gets the volume of its claim, or the kubelet's text that says why not.
func TestClaims(t *testing.T) {
	const processing = `Unable to attach or mount volumes: unmounted volumes=[v], unattached volumes=[], failed to process volumes=[v]: `
	const ofClaim = processing + "error processing PVC default/data: "
	block, other := corev1.PersistentVolumeBlock, t.TempDir()
	ephemeralOf := func(uid string) func(*claims, *corev1.Pod) {
		return func(c *claims, pod *corev1.Pod) {
			pod.Spec.Volumes[0].VolumeSource = corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}}
			c.claim.Name = "web-v"
			controls := true
			c.claim.OwnerReferences = []metav1.OwnerReference{{Name: "web", UID: types.UID(uid), Controller: &controls}}
		}
	}
	for name, tt := range map[string]struct {
		change     func(*claims, *corev1.Pod)
		path, text string
	}{
		"local":             {path: "/volumes/pv"},
		"ephemeral":         {change: ephemeralOf("u"), path: "/volumes/pv"},
		"ephemeral, stolen": {change: ephemeralOf("other"), text: processing + "PVC default/web-v was not created for pod default/web (pod is not owner)"},
		"hostPath": {change: func(c *claims, _ *corev1.Pod) {
			c.pv.Spec.Local, c.pv.Spec.HostPath = nil, &corev1.HostPathVolumeSource{Path: other}
		}, path: other},
		"hostPath of the wrong type": {change: func(c *claims, _ *corev1.Pod) {
			file := corev1.HostPathFile
			c.pv.Spec.Local, c.pv.Spec.HostPath = nil, &corev1.HostPathVolumeSource{Path: other, Type: &file}
		}, text: `MountVolume.SetUp failed for volume "pv" : hostPath type check failed: ` + other + " is not a file"},
		"another kind": {change: func(c *claims, _ *corev1.Pod) {
			c.pv.Spec.Local, c.pv.Spec.NFS = nil, &corev1.NFSVolumeSource{}
		}, text: `MountVolume.SetUp failed for volume "pv" : the source of this PersistentVolume is not supported by this node agent, only local and hostPath are`},
		"outside": {change: func(c *claims, _ *corev1.Pod) { c.pv.Spec.Local.Path = "/etc" }, text: `MountVolume.SetUp failed for volume "pv" : path outside`},
		"no claim": {
			change: func(c *claims, _ *corev1.Pod) { c.claim = nil },
			text:   ofClaim + `failed to fetch PVC from API server: persistentvolumeclaims "data" not found`,
		},
		"unbound": {change: func(c *claims, _ *corev1.Pod) { c.claim.Status.Phase = corev1.ClaimPending }, text: ofClaim + "PVC is not bound"},
		"lost":    {change: func(c *claims, _ *corev1.Pod) { c.claim.Status.Phase = corev1.ClaimLost }, text: ofClaim + "PVC is not bound"},
		"no name": {change: func(c *claims, _ *corev1.Pod) { c.claim.Spec.VolumeName = "" }, text: ofClaim + "PVC has empty pvc.Spec.VolumeName"},
		"deleted": {change: func(c *claims, _ *corev1.Pod) { c.claim.DeletionTimestamp = &metav1.Time{} }, text: ofClaim + "PVC is being deleted"},
		"deleting": {change: func(c *claims, _ *corev1.Pod) {
			c.claim.DeletionTimestamp, c.claim.Finalizers = &metav1.Time{}, []string{"kubernetes.io/pvc-protection"}
		}, path: "/volumes/pv"},
		"no volume": {
			change: func(c *claims, _ *corev1.Pod) { c.pv = nil },
			text:   ofClaim + `failed to fetch PV pv from API server: persistentvolumes "pv" not found`,
		},
		"no claimRef": {
			change: func(c *claims, _ *corev1.Pod) { c.pv.Spec.ClaimRef = nil },
			text:   ofClaim + "found PV object pv but it has a nil pv.Spec.ClaimRef indicating it is not yet bound to the claim",
		},
		"another's": {
			change: func(c *claims, _ *corev1.Pod) { c.pv.Spec.ClaimRef.UID = "d" },
			text:   ofClaim + "found PV object pv but its pv.Spec.ClaimRef.UID d does not point to claim.UID c",
		},
		"a block device": {
			change: func(c *claims, _ *corev1.Pod) { c.pv.Spec.VolumeMode = &block },
			text:   processing + "volume v has volumeMode Block, but is specified in volumeMounts",
		},
		"another node": {change: func(c *claims, _ *corev1.Pod) {
			c.pv.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{"n2"}}},
			}}}}
		}, text: `MountVolume.NodeAffinity check failed for volume "pv" : no matching NodeSelectorTerms`},
	} {
		t.Run(name, func(t *testing.T) {
			c, pod := bound(), withVolume(aClaimVolume())
			if tt.change != nil {
				tt.change(&c, pod)
			}
			v, _ := withClaims(t, c)
			paths, errs := v.Setup(t.Context(), pod)
			if tt.text == "" {
				if len(errs) > 0 || paths["v"] != tt.path {
					t.Errorf("%v, %v", paths, errs)
				}
				return
			}
			if len(errs) != 1 || errs[0].Error() != tt.text {
				t.Errorf("got  %v\nwant %s", errs, tt.text)
			}
		})
	}
}

// TestFSGroupOfClaims: the first pod that uses a volume, and only it, has it given to its group, once.
func TestFSGroupOfClaims(t *testing.T) {
	v, f := withClaims(t, bound())
	group, onMismatch := int64(7), corev1.FSGroupChangeOnRootMismatch
	first, second, third := withVolume(aClaimVolume()), withVolume(aClaimVolume()), withVolume(aClaimVolume())
	first.Spec.SecurityContext = &corev1.PodSecurityContext{FSGroup: &group}
	second.UID, second.Spec.SecurityContext = "u2", first.Spec.SecurityContext
	third.UID, third.Spec.SecurityContext = "u3", &corev1.PodSecurityContext{FSGroup: &group, FSGroupChangePolicy: &onMismatch}
	expect := func(what string, want ...string) {
		t.Helper()
		if !slices.Equal(f.calls, want) {
			t.Errorf("%s: %q, want %q", what, f.calls, want)
		}
		f.calls = nil
	}
	setup(t, v, first)
	setup(t, v, first)
	expect("the first pod", "provide", "own", "provide")
	setup(t, v, second)
	expect("a second pod", "provide")
	for _, pod := range []*corev1.Pod{first, second} {
		if in, err := v.LocalVolumeInUse("pv"); !in || err != nil {
			t.Errorf("in use: %v, %v", in, err)
		}
		if err := v.Remove(string(pod.UID)); err != nil {
			t.Fatal(err)
		}
	}
	if in, err := v.LocalVolumeInUse("pv"); in || err != nil {
		t.Errorf("after all pods: in use: %v, %v", in, err)
	}
	setup(t, v, third)
	expect("a later pod", "provide", "own on mismatch")
	fourth := withVolume(aClaimVolume())
	fourth.UID, fourth.Spec.SecurityContext = "u4", first.Spec.SecurityContext
	fourth.Spec.Volumes[0].PersistentVolumeClaim.ReadOnly = true
	if err := v.Remove("u3"); err != nil {
		t.Fatal(err)
	}
	setup(t, v, fourth)
	expect("a reader", "provide")
	if !volumes.ReadOnly(&fourth.Spec.Volumes[0]) || volumes.ReadOnly(&first.Spec.Volumes[0]) {
		t.Error("readOnly of the claim is not honoured")
	}
}

// TestOnePodAtATime: a volume for one pod is refused to a second one until the first is removed.
func TestOnePodAtATime(t *testing.T) {
	c := bound()
	c.pv.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOncePod}
	v, _ := withClaims(t, c)
	first, second := withVolume(aClaimVolume()), withVolume(aClaimVolume())
	second.UID = "u2"
	setup(t, v, first)
	_, errs := v.Setup(t.Context(), second)
	if len(errs) != 1 || !strings.HasSuffix(errs[0].Error(), "volume uses the ReadWriteOncePod access mode and is already in use by another pod") {
		t.Errorf("the second pod: %v", errs)
	}
	setup(t, v, first)
	if err := v.Remove(string(first.UID)); err != nil {
		t.Fatal(err)
	}
	setup(t, v, second)
}

// TestVolumesInUseAreNames: a name cannot lead elsewhere.
func TestVolumesInUseAreNames(t *testing.T) {
	v, _ := withClaims(t, bound())
	for _, name := range []string{"", "..", "a/b", filepath.Join("..", "x")} {
		if in, err := v.LocalVolumeInUse(name); err == nil {
			t.Errorf("%q is in use: %v", name, in)
		}
	}
}
