package builtin

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/kinds"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/apps"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/autoscaling"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/batch"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/core/pod"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/policy"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/samples"
)

// TestGenerations checks that changes of the spec are counted, and only those.
func TestGenerations(t *testing.T) {
	s := policy.PodDisruptionBudget()
	b := &policyv1.PodDisruptionBudget{Status: policyv1.PodDisruptionBudgetStatus{DisruptionsAllowed: 9}}
	if s.PrepareForCreate(b); b.Generation != 1 || b.Status.DisruptionsAllowed != 0 {
		t.Errorf("new budget: got %+v", b)
	}
	same := b.DeepCopy()
	same.Labels, same.Status.DisruptionsAllowed = map[string]string{"a": "b"}, 5
	if s.Update.Prepare(same, b); same.Generation != 1 || same.Status.DisruptionsAllowed != 0 {
		t.Errorf("update of its labels: got %+v", same)
	}
	changed := b.DeepCopy()
	changed.Spec.MinAvailable = new(intstr.FromInt32(1))
	if s.Update.Prepare(changed, b); changed.Generation != 2 {
		t.Errorf("change of its spec: got %+v", changed)
	}
	status := changed.DeepCopy()
	status.Spec.MinAvailable, status.Status.DisruptionsAllowed = nil, 5
	if s.Subresources["status"].Prepare(status, changed); status.Generation != 2 || status.Spec.MinAvailable == nil || status.Status.DisruptionsAllowed != 5 {
		t.Errorf("status update: got %+v", status)
	}
}

// sample returns a valid new object of a kind as it is stored.
func sample[T scheme.Object](t *testing.T, s *kinds.Definition) T {
	t.Helper()
	table := scheme.New()
	set, err := samples.New(table)
	if err != nil {
		t.Fatal(err)
	}
	obj := set.Of(scheme.For[T](table)).(T)
	obj.SetUID("u")
	s.Default(obj)
	s.PrepareForCreate(obj)
	if errs := s.Validate(obj); len(errs) > 0 {
		t.Fatalf("the sample was rejected: %v", errs.ToAggregate())
	}
	return obj
}

// TestWorkloadGenerations checks that the generation counts changes of the spec and nothing else,
// that an update of the spec cannot change the status, and vice versa.
func TestWorkloadGenerations(t *testing.T) {
	check := func(name string, s *kinds.Definition, obj, changed scheme.Object) {
		t.Run(name, func(t *testing.T) {
			if s.Level != kinds.Full {
				t.Errorf("got level %s", s.Level)
			}
			if obj.GetGeneration() != 1 {
				t.Fatalf("new object: got generation %d, want 1", obj.GetGeneration())
			}
			labelled := obj.DeepCopyObject().(scheme.Object)
			labelled.SetLabels(map[string]string{"x": "y"})
			s.Update.Prepare(labelled, obj)
			if labelled.GetGeneration() != 1 {
				t.Errorf("with a new label: got generation %d", labelled.GetGeneration())
			}
			s.Update.Prepare(changed, obj)
			if changed.GetGeneration() != 2 {
				t.Errorf("with another spec: got generation %d", changed.GetGeneration())
			}
			part, ok := s.Subresources["status"]
			if !ok {
				return
			}
			restored := changed.DeepCopyObject().(scheme.Object)
			restored.SetGeneration(1)
			part.Prepare(restored, obj)
			restored.SetAnnotations(obj.GetAnnotations())
			if !apiequality.Semantic.DeepEqual(restored, obj) {
				t.Errorf("a status update changed the spec:\n%s", cmp.Diff(obj, restored))
			}
		})
	}
	set := sample[*appsv1.StatefulSet](t, apps.StatefulSet())
	changedSet := set.DeepCopy()
	changedSet.Spec.Replicas, changedSet.Status.Replicas = new(int32(9)), 9
	check("stateful set", apps.StatefulSet(), set, changedSet)
	if changedSet.Status.Replicas != 0 {
		t.Error("an update of the spec changed the status")
	}
	daemons := sample[*appsv1.DaemonSet](t, apps.DaemonSet())
	changedDaemons := daemons.DeepCopy()
	changedDaemons.Spec.MinReadySeconds = 9
	check("daemon set", apps.DaemonSet(), daemons, changedDaemons)
	controller := sample[*corev1.ReplicationController](t, apps.ReplicationController())
	changedController := controller.DeepCopy()
	changedController.Spec.Replicas = new(int32(9))
	check("replication controller", apps.ReplicationController(), controller, changedController)
	template := sample[*corev1.PodTemplate](t, pod.PodTemplate())
	changedTemplate := template.DeepCopy()
	changedTemplate.Template.Spec.Containers[0].Image = "other"
	check("pod template", pod.PodTemplate(), template, changedTemplate)
	j := sample[*batchv1.Job](t, batch.Job())
	changedJob := j.DeepCopy()
	changedJob.Spec.Parallelism = new(int32(9))
	check("job", batch.Job(), j, changedJob)
	c := sample[*batchv1.CronJob](t, batch.CronJob())
	changedCron := c.DeepCopy()
	changedCron.Spec.Schedule = "@daily"
	check("cron job", batch.CronJob(), c, changedCron)
	a := sample[*autoscalingv2.HorizontalPodAutoscaler](t, autoscaling.HorizontalPodAutoscaler())
	changedScaler := a.DeepCopy()
	changedScaler.Spec.MaxReplicas = 9
	check("autoscaler", autoscaling.HorizontalPodAutoscaler(), a, changedScaler)
	first := sample[*autoscalingv1.HorizontalPodAutoscaler](t, autoscaling.HorizontalPodAutoscalerV1())
	changedFirst := first.DeepCopy()
	changedFirst.Spec.MaxReplicas = 9
	check("autoscaler of the first version", autoscaling.HorizontalPodAutoscalerV1(), first, changedFirst)
}
