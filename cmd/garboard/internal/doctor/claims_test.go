package doctor

import (
	"errors"
	"strings"
	"testing"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/storage/volume"

	"github.com/garboard/garboard/libs/localvolume"
)

// waitingClaim returns the facts of a plane in which a claim has waited for an hour.
func waitingClaim(change func(*corev1.PersistentVolumeClaim)) *Facts {
	f := healthy()
	delayed, immediate := storagev1.VolumeBindingWaitForFirstConsumer, storagev1.VolumeBindingImmediate
	f.Storage = Storage{Classes: map[string]*storagev1.StorageClass{
		"local-path": {Provisioner: localvolume.Provisioner, VolumeBindingMode: &delayed},
		"external":   {Provisioner: "example.com/disks", VolumeBindingMode: &immediate},
		"by-hand":    {Provisioner: noProvisioner},
	}, Refusals: map[types.UID]string{}, Volumes: map[string]bool{"pvc-1": true}}
	f.Nodes[0].Annotations = map[string]string{localvolume.NodeAnnotation: "/volumes"}
	c := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{
		Namespace: "shop", Name: "data", UID: "c", CreationTimestamp: metav1.NewTime(now.Add(-time.Hour)), Annotations: map[string]string{},
	}}
	change(c)
	f.Storage.Claims = []*corev1.PersistentVolumeClaim{c}
	return f
}

func ofClass(name string) func(*corev1.PersistentVolumeClaim) {
	return func(c *corev1.PersistentVolumeClaim) { c.Spec.StorageClassName = &name }
}

func onNode(c *corev1.PersistentVolumeClaim) {
	ofClass("local-path")(c)
	c.Annotations[volume.AnnSelectedNode] = "node"
}

// wantWarning checks that exactly one finding is not OK, and what it is.
func wantWarning(t *testing.T, f *Facts, group, name, says, advice string) {
	t.Helper()
	found := 0
	for _, one := range Check(f) {
		if one.Level == OK {
			continue
		}
		found++
		if one.Level != Warn || one.Group != group || one.Name != name || !strings.Contains(one.Says, says) ||
			!strings.Contains(one.Advice, advice) || one.Advice == "" {
			t.Errorf("found %+v; want %s: %s, %q, %q", one, group, name, says, advice)
		}
	}
	if want := map[bool]int{true: 1}[name != ""]; found != want {
		t.Errorf("%d findings are not OK, want %d", found, want)
	}
}

// TestClaims: each cause of waiting is told apart, with its advice; what is to wait is no finding.
func TestClaims(t *testing.T) {
	for _, tc := range []struct {
		name               string
		claim              func(*corev1.PersistentVolumeClaim)
		facts              func(*Facts)
		what, says, advice string // of the finding; none if what is empty
	}{
		{"no class", func(*corev1.PersistentVolumeClaim) {}, nil, "claims", "no StorageClass, and there is no default one (shop/data)", "--local-path-storage-class"},
		{"without a class on purpose", ofClass(""), nil, "claims", "without a StorageClass", "Create PersistentVolumes"},
		{"an unknown class", ofClass("gold"), nil, "claims of class gold", "no such StorageClass (shop/data)", "kubectl get storageclasses"},
		{"a class by annotation", func(c *corev1.PersistentVolumeClaim) { c.Annotations[corev1.BetaStorageClassAnnotation] = "gold" }, nil, "claims of class gold", "no such", "Create"},
		{"a volume", func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeName = "v" }, nil, "claims", "the volume that they name", "claimRef"},
		{"an external provisioner", ofClass("external"), nil, "claims of class external", "example.com/disks has provisioned no volume", "installed and runs"},
		{"by hand", ofClass("by-hand"), nil, "claims of class by-hand", "no volume fits", "nothing provisions"},
		{"no pod yet", ofClass("local-path"), nil, "", "", ""},
		{"no time yet", func(c *corev1.PersistentVolumeClaim) {
			c.CreationTimestamp = metav1.NewTime(now.Add(-patience + time.Second))
		}, nil, "", "", ""},
		{"selected", onNode, nil, "claims of class local-path", "garboard.io/local-path has provisioned no volume", "--controllers"},
		{"a node without a folder", onNode, func(f *Facts) { f.Nodes[0].Annotations = nil }, "claims of class local-path", "has provisioned no volume", "(node): start their agents with --local-volumes-dir"},
		{"refused and unselected", ofClass("local-path"), func(f *Facts) { f.Storage.Refusals["c"] = "node has no folder" }, "claims of class local-path", "its last Event: node has no folder", "kubectl describe pvc"},
		{"no right", ofClass("gold"), func(f *Facts) { f.Storage.Err = errors.New("forbidden") }, "all", "forbidden", "may list persistentvolumeclaims"},
		{"a folder", ofClass("local-path"), func(f *Facts) {
			f.Nodes[0].Status.VolumesInUse = []corev1.UniqueVolumeName{localvolume.UniqueName("pvc-1"), localvolume.UniqueName("pvc-9"), "other/pvc-8"}
		}, "folders of node", "1 belong to no known volume: pvc-9", localvolume.NodeAnnotation},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := waitingClaim(tc.claim)
			if tc.facts != nil {
				tc.facts(f)
			}
			wantWarning(t, f, "Storage", tc.what, tc.says, tc.advice)
		})
	}
}

// TestManyClaims: claims that wait for the same reason are one finding, which does not list them all.
func TestManyClaims(t *testing.T) {
	f := waitingClaim(ofClass("gold"))
	for range 9 {
		f.Storage.Claims = append(f.Storage.Claims, f.Storage.Claims[0])
	}
	wantWarning(t, f, "Storage", "claims of class gold", "shop/data and 5 more", "Create")
}

// TestAutoscalers: only autoscalers whose metrics cannot be read are findings.
func TestAutoscalers(t *testing.T) {
	condition := func(status corev1.ConditionStatus, reason, message string, age time.Duration) func(*Facts) {
		return func(f *Facts) {
			f.Autoscalers = []*autoscalingv2.HorizontalPodAutoscaler{{
				ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"},
				Status: autoscalingv2.HorizontalPodAutoscalerStatus{Conditions: []autoscalingv2.HorizontalPodAutoscalerCondition{
					{Type: autoscalingv2.AbleToScale, Status: corev1.ConditionFalse, Reason: "FailedGetScale", LastTransitionTime: metav1.NewTime(now.Add(-time.Hour))},
					{Type: autoscalingv2.ScalingActive, Status: status, Reason: reason, Message: message, LastTransitionTime: metav1.NewTime(now.Add(-age))},
				}},
			}}
		}
	}
	const reason = "FailedGetResourceMetric"
	for _, tc := range []struct {
		name               string
		facts              func(*Facts)
		what, says, advice string
	}{
		{"measured", condition(corev1.ConditionTrue, "ValidMetricFound", "fine", time.Hour), "", "", ""},
		{"no API", condition(corev1.ConditionFalse, reason, "unable to fetch metrics from resource metrics API: "+notServed, time.Hour), "metrics API", "shop/web", "--horizontal-pod-autoscaler-metrics-server"},
		{"no answer", condition(corev1.ConditionFalse, reason, "timeout", time.Hour), "metrics", "FailedGetResourceMetric: timeout", "log"},
		{"not for long", condition(corev1.ConditionFalse, reason, "timeout", time.Minute), "", "", ""},
		{"switched off", condition(corev1.ConditionFalse, "ScalingDisabled", "zero", time.Hour), "", "", ""},
		{"no right", func(f *Facts) { f.AutoscalersErr = errors.New("forbidden") }, "all", "forbidden", "may list horizontalpodautoscalers"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := healthy()
			tc.facts(f)
			wantWarning(t, f, "Autoscaling", tc.what, tc.says, tc.advice)
		})
	}
}
