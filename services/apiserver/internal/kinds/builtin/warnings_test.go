package builtin

import (
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/services/apiserver/internal/kinds/apps"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/batch"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/core/volume"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/storage"
)

func TestPolicyWarnings(t *testing.T) {
	half := corev1.ResourceList{"storage": resource.MustParse("1500m")}
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{corev1.BetaStorageClassAnnotation: "fast"}},
		Spec:       corev1.PersistentVolumeClaimSpec{Resources: corev1.VolumeResourceRequirements{Requests: half, Limits: half}},
	}
	want := []string{
		`metadata.annotations[volume.beta.kubernetes.io/storage-class]: deprecated since v1.8; use "storageClassName" attribute instead`,
		`spec.resources.requests[storage]: fractional byte value "1500m" is invalid, must be an integer`,
		`spec.resources.limits[storage]: fractional byte value "1500m" is invalid, must be an integer`,
	}
	if got := volume.PersistentVolumeClaim().Warnings(claim); !slices.Equal(got, want) {
		t.Errorf("claim: got warnings %q", got)
	}
	class := &storagev1.StorageClass{AllowedTopologies: []corev1.TopologySelectorTerm{{MatchLabelExpressions: []corev1.TopologySelectorLabelRequirement{
		{Key: "zone"}, {Key: "failure-domain.beta.kubernetes.io/zone"},
	}}}}
	want = []string{`allowedTopologies[0].matchLabelExpressions[1].key: failure-domain.beta.kubernetes.io/zone is deprecated since v1.17; use "topology.kubernetes.io/zone" instead`}
	if got := storage.StorageClass().Warnings(class); !slices.Equal(got, want) {
		t.Errorf("storage class: got warnings %q", got)
	}
}

func TestWorkloadWarnings(t *testing.T) {
	set := sample[*appsv1.StatefulSet](t, apps.StatefulSet())
	set.Spec.RevisionHistoryLimit = new(int32(-1))
	set.Spec.Template.Spec.NodeSelector = map[string]string{"beta.kubernetes.io/os": "x"}
	set.Spec.VolumeClaimTemplates = []corev1.PersistentVolumeClaim{{Spec: corev1.PersistentVolumeClaimSpec{
		Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{"storage": resource.MustParse("100m")}},
	}}}
	big := sample[*batchv1.Job](t, batch.Job())
	big.Spec.CompletionMode, big.Spec.Completions, big.Spec.Parallelism = new(batchv1.IndexedCompletion), new(int32(100_001)), new(int32(10_001))
	zoned := sample[*batchv1.CronJob](t, batch.CronJob())
	zoned.Spec.Schedule, zoned.Name = "TZ=Etc/UTC * * * * *", "a.b"
	const indexes = "spec: In Indexed Jobs with a number of completions higher than 10^5 and a parallelism higher than 10^4, Kubernetes might not be able to track completedIndexes when a big number of indexes fail"
	for name, tc := range map[string]struct{ got, want []string }{
		"stateful set": {apps.StatefulSet().Warnings(set), []string{
			`spec.template.spec.nodeSelector[beta.kubernetes.io/os]: deprecated since v1.14; use "kubernetes.io/os" instead`,
			`spec.volumeClaimTemplates[0].resources.requests[storage]: fractional byte value "100m" is invalid, must be an integer`,
			"spec.revisionHistoryLimit: a negative value retains all historical revisions; a value >= 0 is recommended",
		}},
		"job":      {batch.Job().Warnings(big), []string{indexes}},
		"cron job": {batch.CronJob().Warnings(zoned), []string{"cannot use TZ or CRON_TZ in spec.spec.schedule, use timeZone instead, see https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details"}},
		"name":     {batch.CronJob().CreationWarnings(zoned), []string{"metadata.name: this is used in Pod names and hostnames, which can result in surprising behavior; a DNS label is recommended: [must not contain dots]"}},
		"none":     {apps.ReplicationController().Warnings(&corev1.ReplicationController{}), nil},
	} {
		if !slices.Equal(tc.got, tc.want) {
			t.Errorf("%s: got %q", name, tc.got)
		}
	}
}
