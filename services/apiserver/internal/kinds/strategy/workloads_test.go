package strategy

import (
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/kinds"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/samples"
)

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
	set := sample[*appsv1.StatefulSet](t, statefulSet())
	changedSet := set.DeepCopy()
	changedSet.Spec.Replicas, changedSet.Status.Replicas = new(int32(9)), 9
	check("stateful set", statefulSet(), set, changedSet)
	if changedSet.Status.Replicas != 0 {
		t.Error("an update of the spec changed the status")
	}
	daemons := sample[*appsv1.DaemonSet](t, daemonSet())
	changedDaemons := daemons.DeepCopy()
	changedDaemons.Spec.MinReadySeconds = 9
	check("daemon set", daemonSet(), daemons, changedDaemons)
	controller := sample[*corev1.ReplicationController](t, replicationController())
	changedController := controller.DeepCopy()
	changedController.Spec.Replicas = new(int32(9))
	check("replication controller", replicationController(), controller, changedController)
	template := sample[*corev1.PodTemplate](t, podTemplate())
	changedTemplate := template.DeepCopy()
	changedTemplate.Template.Spec.Containers[0].Image = "other"
	check("pod template", podTemplate(), template, changedTemplate)
	j := sample[*batchv1.Job](t, job())
	changedJob := j.DeepCopy()
	changedJob.Spec.Parallelism = new(int32(9))
	check("job", job(), j, changedJob)
	c := sample[*batchv1.CronJob](t, cronJob())
	changedCron := c.DeepCopy()
	changedCron.Spec.Schedule = "@daily"
	check("cron job", cronJob(), c, changedCron)
	a := sample[*autoscalingv2.HorizontalPodAutoscaler](t, horizontalPodAutoscaler())
	changedScaler := a.DeepCopy()
	changedScaler.Spec.MaxReplicas = 9
	check("autoscaler", horizontalPodAutoscaler(), a, changedScaler)
	first := sample[*autoscalingv1.HorizontalPodAutoscaler](t, horizontalPodAutoscalerV1())
	changedFirst := first.DeepCopy()
	changedFirst.Spec.MaxReplicas = 9
	check("autoscaler of the first version", horizontalPodAutoscalerV1(), first, changedFirst)
}

func TestDaemonSetTemplateNumber(t *testing.T) {
	s := daemonSet()
	d := sample[*appsv1.DaemonSet](t, s)
	number := func(d *appsv1.DaemonSet) string { return d.Annotations[appsv1.DeprecatedTemplateGeneration] }
	if number(d) != "1" {
		t.Fatalf("new template: got number %q", number(d))
	}
	changed := d.DeepCopy()
	changed.Annotations, changed.Spec.MinReadySeconds = nil, 5
	s.Update.Prepare(changed, d)
	if number(changed) != "1" {
		t.Errorf("same template: got number %q", number(changed))
	}
	changed.Spec.Template.Spec.Containers[0].Image = "other"
	s.Update.Prepare(changed, d)
	if number(changed) != "2" {
		t.Errorf("next template: got number %q", number(changed))
	}
}

func TestJobSelector(t *testing.T) {
	s := job()
	made := func(change func(*batchv1.Job)) *batchv1.Job {
		j := sample[*batchv1.Job](t, s)
		j.Labels, j.Spec.Selector, j.Spec.Template.Labels = nil, nil, nil
		change(j)
		s.Default(j)
		s.PrepareForCreate(j)
		return j
	}
	stamped := map[string]string{"job-name": "sample", "controller-uid": "u", batchv1.JobNameLabel: "sample", batchv1.ControllerUidLabel: "u"}
	with := func(key, value string) map[string]string {
		m := maps.Clone(stamped)
		m[key] = value
		return m
	}
	for name, tc := range map[string]struct {
		change                     func(*batchv1.Job)
		selector, template, labels map[string]string
	}{
		"plain":        {func(*batchv1.Job) {}, map[string]string{batchv1.ControllerUidLabel: "u"}, stamped, stamped},
		"own labels":   {func(j *batchv1.Job) { j.Labels = map[string]string{"a": "b"} }, map[string]string{batchv1.ControllerUidLabel: "u"}, stamped, map[string]string{"a": "b"}},
		"pods' labels": {func(j *batchv1.Job) { j.Spec.Template.Labels = map[string]string{"a": "b"} }, map[string]string{batchv1.ControllerUidLabel: "u"}, with("a", "b"), with("a", "b")},
		"forged":       {func(j *batchv1.Job) { j.Spec.Template.Labels = map[string]string{"job-name": "x"} }, map[string]string{batchv1.ControllerUidLabel: "u"}, with("job-name", "x"), with("job-name", "x")},
		"manual": {func(j *batchv1.Job) {
			j.Spec.ManualSelector, j.Spec.Selector = new(true), &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}
			j.Spec.Template.Labels = map[string]string{"a": "b"}
		}, map[string]string{"a": "b"}, map[string]string{"a": "b"}, map[string]string{"a": "b"}},
	} {
		t.Run(name, func(t *testing.T) {
			j := made(tc.change)
			if !maps.Equal(j.Spec.Selector.MatchLabels, tc.selector) || !maps.Equal(j.Spec.Template.Labels, tc.template) || !maps.Equal(j.Labels, tc.labels) {
				t.Errorf("got selector %v, pod labels %v and labels %v", j.Spec.Selector.MatchLabels, j.Spec.Template.Labels, j.Labels)
			}
		})
	}
	j := made(func(*batchv1.Job) {})
	j.Name = "other"
	s.Renamed(j, "sample")
	if errs := s.Validate(j); len(errs) > 0 || j.Labels["job-name"] != "other" {
		t.Errorf("the renamed job was rejected: %v", errs.ToAggregate())
	}
	if !s.Orphans || !replicationController().Orphans || deployment().Orphans || cronJob().Orphans {
		t.Error("exactly jobs and replication controllers must leave their pods behind")
	}
}

func TestWorkloadWarnings(t *testing.T) {
	set := sample[*appsv1.StatefulSet](t, statefulSet())
	set.Spec.RevisionHistoryLimit = new(int32(-1))
	set.Spec.Template.Spec.NodeSelector = map[string]string{"beta.kubernetes.io/os": "x"}
	set.Spec.VolumeClaimTemplates = []corev1.PersistentVolumeClaim{{Spec: corev1.PersistentVolumeClaimSpec{
		Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{"storage": resource.MustParse("100m")}},
	}}}
	big := sample[*batchv1.Job](t, job())
	big.Spec.CompletionMode, big.Spec.Completions, big.Spec.Parallelism = new(batchv1.IndexedCompletion), new(int32(100_001)), new(int32(10_001))
	zoned := sample[*batchv1.CronJob](t, cronJob())
	zoned.Spec.Schedule, zoned.Name = "TZ=Etc/UTC * * * * *", "a.b"
	const indexes = "spec: In Indexed Jobs with a number of completions higher than 10^5 and a parallelism higher than 10^4, Kubernetes might not be able to track completedIndexes when a big number of indexes fail"
	for name, tc := range map[string]struct{ got, want []string }{
		"stateful set": {statefulSet().Warnings(set), []string{
			`spec.template.spec.nodeSelector[beta.kubernetes.io/os]: deprecated since v1.14; use "kubernetes.io/os" instead`,
			`spec.volumeClaimTemplates[0].resources.requests[storage]: fractional byte value "100m" is invalid, must be an integer`,
			"spec.revisionHistoryLimit: a negative value retains all historical revisions; a value >= 0 is recommended",
		}},
		"job":      {job().Warnings(big), []string{indexes}},
		"cron job": {cronJob().Warnings(zoned), []string{"cannot use TZ or CRON_TZ in spec.spec.schedule, use timeZone instead, see https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details"}},
		"name":     {cronJob().CreationWarnings(zoned), []string{"metadata.name: this is used in Pod names and hostnames, which can result in surprising behavior; a DNS label is recommended: [must not contain dots]"}},
		"none":     {replicationController().Warnings(&corev1.ReplicationController{}), nil},
	} {
		if !slices.Equal(tc.got, tc.want) {
			t.Errorf("%s: got %q", name, tc.got)
		}
	}
}

func TestWorkloadFields(t *testing.T) {
	if got := job().Fields(&batchv1.Job{Status: batchv1.JobStatus{Succeeded: 3}}); got["status.successful"] != "3" {
		t.Errorf("job: got fields %v", got)
	}
	if got := replicationController().Fields(&corev1.ReplicationController{Status: corev1.ReplicationControllerStatus{Replicas: 3}}); got["status.replicas"] != "3" {
		t.Errorf("replication controller: got fields %v", got)
	}
}

// TestAutoscalerVersions checks that the first version gets the same defaults and checks as the
// second.
func TestAutoscalerVersions(t *testing.T) {
	s := horizontalPodAutoscalerV1()
	a := sample[*autoscalingv1.HorizontalPodAutoscaler](t, s)
	a.Spec.TargetCPUUtilizationPercentage = nil
	s.PrepareForCreate(a)
	if p := a.Spec.TargetCPUUtilizationPercentage; p == nil || *p != 80 {
		t.Errorf("without a target: got %v", p)
	}
	stored := s.ToStored(a).(*autoscalingv2.HorizontalPodAutoscaler)
	if len(stored.Spec.Metrics) != 1 || *stored.Spec.Metrics[0].Resource.Target.AverageUtilization != 80 {
		t.Errorf("got stored spec %+v", stored.Spec)
	}
	if back := s.FromStored(stored).(*autoscalingv1.HorizontalPodAutoscaler); !apiequality.Semantic.DeepEqual(back.Spec, a.Spec) {
		t.Errorf("got spec %+v after the round trip", back.Spec)
	}
	a.Spec.TargetCPUUtilizationPercentage, a.Spec.MaxReplicas = new(int32(0)), 0
	var got []string
	for _, err := range s.Validate(a) {
		got = append(got, err.Error())
	}
	want := []string{
		"spec.maxReplicas: Invalid value: 0: must be greater than 0", "spec.maxReplicas: Invalid value: 0: must be greater than or equal to `minReplicas`",
		"spec.metrics[0].resource.target.averageUtilization: Invalid value: 0: must be greater than 0",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}

// TestPodParts checks that a request to debug or resize a pod changes nothing else of it.
func TestPodParts(t *testing.T) {
	s := pod()
	p := sample[*corev1.Pod](t, s)
	changed := p.DeepCopy()
	changed.Labels, changed.Spec.NodeName, changed.Status.Phase = map[string]string{"x": "y"}, "n", corev1.PodFailed
	changed.Spec.Containers[0].Image = "other"
	changed.Spec.Containers[0].Resources.Requests = corev1.ResourceList{"cpu": resource.MustParse("3")}
	changed.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "e", Image: "i"}}}
	for name, restore := range map[string]func(*corev1.Pod){
		"ephemeralcontainers": func(got *corev1.Pod) { got.Spec.EphemeralContainers = nil },
		"resize":              func(got *corev1.Pod) { got.Spec.Containers[0].Resources = *p.Spec.Containers[0].Resources.DeepCopy() },
	} {
		got := changed.DeepCopy()
		s.Subresources[name].Prepare(got, p)
		if got.Generation != p.Generation+1 {
			t.Errorf("%s: got generation %d", name, got.Generation)
		}
		if apiequality.Semantic.DeepEqual(got.Spec, p.Spec) {
			t.Errorf("%s changed nothing", name)
		}
		restore(got)
		got.Generation = p.Generation
		if !apiequality.Semantic.DeepEqual(got, p) {
			t.Errorf("%s changed more:\n%s", name, cmp.Diff(p, got))
		}
	}
	guaranteed := p.DeepCopy()
	all := corev1.ResourceList{"cpu": resource.MustParse("1"), "memory": resource.MustParse("1Gi")}
	for i := range guaranteed.Spec.Containers {
		guaranteed.Spec.Containers[i].Resources = corev1.ResourceRequirements{Requests: all, Limits: all}
	}
	if errs := s.Subresources["resize"].Validate(guaranteed, p); len(errs) != 1 || errs[0].Detail != "Pod QOS Class may not change as a result of resizing" {
		t.Errorf("another class: got errors %v", errs)
	}
}
