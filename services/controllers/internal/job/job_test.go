package job

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"go.uber.org/goleak"

	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/services/controllers/internal/controltest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// newJob returns a Job with the defaults that the apiserver fills in.
func newJob(completions, parallel int32, change func(*batchv1.JobSpec)) *batchv1.Job {
	labels := map[string]string{"batch.kubernetes.io/job-name": "work"}
	limit, mode := int32(6), batchv1.NonIndexedCompletion
	job := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "work", UID: "uid-work"},
		Spec: batchv1.JobSpec{
			Completions: &completions, Parallelism: &parallel, BackoffLimit: &limit, CompletionMode: &mode,
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{
					RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "c", Image: "i"}},
				},
			},
		},
	}
	if change != nil {
		change(&job.Spec)
	}
	return job
}

func indexedMode(spec *batchv1.JobSpec) {
	mode := batchv1.IndexedCompletion
	spec.CompletionMode = &mode
}

// plane runs the controller, inside a bubble.
func plane(t *testing.T) *controltest.Plane {
	t.Helper()
	p := controltest.New(t)
	p.Allow("get list watch update patch batch/jobs", "update batch/jobs/status", "list watch create delete patch /pods", controltest.Events)
	p.Declare(New)
	p.Start()
	return p
}

// settle lets everything happen that changes lead to within a few seconds.
func settle() {
	time.Sleep(5 * time.Second)
	synctest.Wait()
}

func theJob(p *controltest.Plane) *batchv1.Job {
	return controltest.Get[*batchv1.Job](p, "default", "work")
}

// living returns the pods that neither ended nor are to end, in the order of their indexes and names.
func living(p *controltest.Plane) []*corev1.Pod {
	pods := slices.DeleteFunc(controltest.List[*corev1.Pod](p), func(pod *corev1.Pod) bool {
		return pod.DeletionTimestamp != nil || pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
	})
	slices.SortFunc(pods, func(a, b *corev1.Pod) int {
		return strings.Compare(a.Annotations[batchv1.JobCompletionIndexAnnotation]+a.Name, b.Annotations[batchv1.JobCompletionIndexAnnotation]+b.Name)
	})
	return pods
}

// end sets what becomes of a pod: its container ends with a code.
func end(p *controltest.Plane, pod *corev1.Pod, code int32) {
	controltest.SetStatus(p, pod.Namespace, pod.Name, func(pod *corev1.Pod) {
		pod.Status.Phase = corev1.PodSucceeded
		if code != 0 {
			pod.Status.Phase = corev1.PodFailed
		}
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "c", State: corev1.ContainerState{
			Terminated: &corev1.ContainerStateTerminated{ExitCode: code, FinishedAt: metav1.Now()},
		}}}
	})
}

// index returns a pod's completion index.
func index(pod *corev1.Pod) string { return pod.Annotations[batchv1.JobCompletionIndexAnnotation] }

// want checks the conditions of the Job, "Type/Reason/message" or only the beginning of that.
func want(t *testing.T, p *controltest.Plane, conditions ...string) *batchv1.Job {
	t.Helper()
	job := theJob(p)
	var got []string
	for _, c := range job.Status.Conditions {
		if c.Status == corev1.ConditionTrue {
			got = append(got, fmt.Sprintf("%s/%s/%s", c.Type, c.Reason, c.Message))
		}
	}
	if len(got) != len(conditions) {
		t.Fatalf("got conditions %q, want %q", got, conditions)
	}
	for i := range got {
		if !strings.HasPrefix(got[i], conditions[i]) {
			t.Errorf("got condition %q, want %q", got[i], conditions[i])
		}
	}
	return job
}

// wantNothingTracked checks that no pod has the finalizer any more.
func wantNothingTracked(t *testing.T, p *controltest.Plane) {
	t.Helper()
	for _, pod := range controltest.List[*corev1.Pod](p) {
		if tracked(pod) {
			t.Errorf("pod %s has the finalizer still", pod.Name)
		}
	}
}

func TestRunsToCompletion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := plane(t)
		job := controltest.Create(p, newJob(3, 2, nil))
		settle()
		pods := living(p)
		if len(pods) != 2 || !strings.HasPrefix(pods[0].Name, "work-") || !tracked(pods[0]) || !metav1.IsControlledBy(pods[0], job) {
			t.Fatalf("got pods %v", pods)
		}
		controltest.MarkReady(p, "default", pods[0].Name, true)
		settle()
		if got := theJob(p).Status; got.Active != 2 || *got.Ready != 1 || *got.Terminating != 0 || got.StartTime.IsZero() {
			t.Errorf("got status %+v", got)
		}
		end(p, pods[0], 0)
		end(p, pods[1], 0)
		settle()
		pods = living(p)
		if got := theJob(p).Status; len(pods) != 1 || got.Succeeded != 2 || got.Active != 1 {
			t.Fatalf("got %d pods and status %+v", len(pods), got)
		}
		end(p, pods[0], 0)
		settle()
		job = want(t, p, "SuccessCriteriaMet/CompletionsReached/Reached expected number of succeeded pods", "Complete/CompletionsReached/Reached expected")
		if got := job.Status; got.Succeeded != 3 || got.Active != 0 || got.CompletionTime.IsZero() || len(got.UncountedTerminatedPods.Succeeded) != 0 {
			t.Errorf("got status %+v", got)
		}
		wantNothingTracked(t, p)
		if got := p.Events("Completed"); !slices.Equal(got, []string{"Job completed"}) {
			t.Errorf("got events %q", got)
		}
		if got := p.Events("SuccessfulCreate"); len(got) != 3 || !strings.HasPrefix(got[0], "Created pod: work-") {
			t.Errorf("got events %q", got)
		}
	})
}

// TestWithoutCompletions checks that one success is enough, and that other pods may go on until they end.
func TestWithoutCompletions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := plane(t)
		controltest.Create(p, newJob(0, 2, func(s *batchv1.JobSpec) { s.Completions = nil }))
		settle()
		pods := living(p)
		end(p, pods[0], 0)
		settle()
		want(t, p)
		if n := len(living(p)); n != 1 {
			t.Errorf("got %d pods, want 1", n)
		}
		end(p, pods[1], 0)
		settle()
		want(t, p, "SuccessCriteriaMet/CompletionsReached", "Complete/CompletionsReached")
	})
}

func TestIndexed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := plane(t)
		controltest.Create(p, newJob(4, 3, indexedMode))
		settle()
		pods := living(p)
		if len(pods) != 3 {
			t.Fatalf("got %d pods", len(pods))
		}
		for i, pod := range pods {
			text := strconv.Itoa(i)
			env := pod.Spec.Containers[0].Env
			if index(pod) != text || pod.Labels[batchv1.JobCompletionIndexAnnotation] != text || pod.Spec.Hostname != "work-"+text ||
				!strings.HasPrefix(pod.Name, "work-"+text+"-") || len(env) != 1 || env[0].Name != "JOB_COMPLETION_INDEX" ||
				env[0].ValueFrom.FieldRef.FieldPath != "metadata.labels['batch.kubernetes.io/job-completion-index']" {
				t.Errorf("got pod %+v with %+v", pod.ObjectMeta, env)
			}
		}
		end(p, pods[0], 0)
		end(p, pods[2], 0)
		settle()
		if got := theJob(p).Status; got.CompletedIndexes != "0,2" || got.Succeeded != 2 {
			t.Errorf("got status %+v", got)
		}
		pods = living(p)
		if len(pods) != 2 || index(pods[0]) != "1" || index(pods[1]) != "3" {
			t.Fatalf("got pods %v", pods)
		}
		end(p, pods[0], 1)
		settle()
		if n := len(living(p)); n != 1 {
			t.Errorf("a failed pod was replaced at once: %d", n)
		}
		time.Sleep(10 * time.Second)
		pods = living(p)
		if len(pods) != 2 || index(pods[0]) != "1" {
			t.Fatalf("got pods %v", pods)
		}
		end(p, pods[0], 0)
		end(p, pods[1], 0)
		settle()
		job := want(t, p, "SuccessCriteriaMet", "Complete")
		if job.Status.CompletedIndexes != "0-3" || job.Status.Succeeded != 4 || job.Status.Failed != 1 {
			t.Errorf("got status %+v", job.Status)
		}
		wantNothingTracked(t, p)
	})
}

// TestElastic checks that an indexed Job can be made smaller and larger.
func TestElastic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := plane(t)
		controltest.Create(p, newJob(3, 3, indexedMode))
		settle()
		end(p, living(p)[2], 0)
		settle()
		resize := func(n int32) {
			controltest.Change(p, "default", "work", func(job *batchv1.Job) {
				job.Spec.Completions, job.Spec.Parallelism = &n, &n
				job.Generation++
			})
			settle()
		}
		resize(1)
		if got := theJob(p).Status; len(living(p)) != 1 || index(living(p)[0]) != "0" || got.Succeeded != 0 || got.CompletedIndexes != "" {
			t.Errorf("made smaller: %d pods, status %+v", len(living(p)), got)
		}
		resize(2)
		if pods := living(p); len(pods) != 2 || index(pods[1]) != "1" {
			t.Errorf("made larger: %d pods", len(pods))
		}
	})
}

func TestBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := plane(t)
		controltest.Create(p, newJob(1, 1, func(s *batchv1.JobSpec) { *s.BackoffLimit = 2 }))
		settle()
		for _, wait := range []time.Duration{10 * time.Second, 20 * time.Second} {
			failed := time.Now()
			end(p, living(p)[0], 1)
			for len(living(p)) == 0 && time.Since(failed) < time.Hour {
				time.Sleep(time.Second)
			}
			if took := time.Since(failed); took < wait || took > wait+3*time.Second {
				t.Errorf("a pod was replaced after %v, want %v", took, wait)
			}
			want(t, p)
		}
		end(p, living(p)[0], 1)
		settle()
		const text = "/BackoffLimitExceeded/Job has reached the specified backoff limit"
		job := want(t, p, "FailureTarget"+text, "Failed"+text)
		if job.Status.Failed != 3 || len(living(p)) != 0 || job.Status.CompletionTime != nil {
			t.Errorf("got status %+v and %d pods", job.Status, len(living(p)))
		}
		if got := p.Events("BackoffLimitExceeded"); !slices.Equal(got, []string{"Job has reached the specified backoff limit"}) {
			t.Errorf("got events %q", got)
		}
		wantNothingTracked(t, p)
	})
}

func TestRestartsCountAgainstTheLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := plane(t)
		go func() { _ = p.RunPods(t.Context()) }()
		controltest.Create(p, newJob(1, 1, func(s *batchv1.JobSpec) {
			*s.BackoffLimit = 3
			s.Template.Spec.RestartPolicy = corev1.RestartPolicyOnFailure
		}))
		settle()
		restart := func(n int32) {
			controltest.SetStatus(p, "default", living(p)[0].Name, func(pod *corev1.Pod) {
				pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "c", RestartCount: n}}
			})
			settle()
		}
		restart(2)
		want(t, p)
		restart(3)
		job := want(t, p, "FailureTarget/BackoffLimitExceeded", "Failed/BackoffLimitExceeded")
		if job.Status.Failed != 1 {
			t.Errorf("got %d failed pods, want 1", job.Status.Failed)
		}
	})
}

func TestLimitPerIndex(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := plane(t)
		one := int32(1)
		controltest.Create(p, newJob(3, 3, func(s *batchv1.JobSpec) {
			indexedMode(s)
			s.BackoffLimitPerIndex = &one
		}))
		settle()
		pods := living(p)
		end(p, pods[0], 0)
		end(p, pods[1], 1)
		settle()
		if got := controltest.Get[*corev1.Pod](p, "default", pods[1].Name); !tracked(got) {
			t.Error("a failed pod lost its finalizer before there was one in its place")
		}
		time.Sleep(10 * time.Second)
		again := living(p)[0]
		if index(again) != "1" || again.Annotations[batchv1.JobIndexFailureCountAnnotation] != "1" {
			t.Fatalf("got pod %+v", again.ObjectMeta)
		}
		end(p, again, 1)
		time.Sleep(time.Minute)
		if got := theJob(p).Status; *got.FailedIndexes != "1" || got.Failed != 2 || len(living(p)) != 1 {
			t.Errorf("got status %+v and %d pods", got, len(living(p)))
		}
		end(p, pods[2], 0)
		settle()
		job := want(t, p, "FailureTarget/FailedIndexes/Job has failed indexes", "Failed/FailedIndexes")
		if job.Status.CompletedIndexes != "0,2" {
			t.Errorf("got status %+v", job.Status)
		}
		wantNothingTracked(t, p)
	})
}

func TestTooManyFailedIndexes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := plane(t)
		go func() { _ = p.RunPods(t.Context()) }()
		controltest.Create(p, newJob(4, 4, func(s *batchv1.JobSpec) {
			indexedMode(s)
			s.BackoffLimitPerIndex, s.MaxFailedIndexes = new(int32), new(int32)
		}))
		settle()
		end(p, living(p)[2], 1)
		settle()
		want(t, p, "FailureTarget/MaxFailedIndexesExceeded/Job has exceeded the specified maximal number of failed indexes", "Failed/Max")
		if n := len(living(p)); n != 0 {
			t.Errorf("%d pods go on", n)
		}
	})
}

func TestSuccessPolicy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := plane(t)
		go func() { _ = p.RunPods(t.Context()) }()
		leader := "0"
		controltest.Create(p, newJob(3, 3, func(s *batchv1.JobSpec) {
			indexedMode(s)
			s.SuccessPolicy = &batchv1.SuccessPolicy{Rules: []batchv1.SuccessPolicyRule{{SucceededIndexes: &leader}}}
		}))
		settle()
		end(p, living(p)[1], 0)
		settle()
		want(t, p)
		end(p, living(p)[0], 0)
		settle()
		job := want(t, p, "SuccessCriteriaMet/SuccessPolicy/Matched rules at index 0", "Complete/SuccessPolicy/Matched")
		if job.Status.CompletedIndexes != "0,1" || len(living(p)) != 0 {
			t.Errorf("got status %+v and %d pods", job.Status, len(living(p)))
		}
	})
}

func TestDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := plane(t)
		go func() { _ = p.RunPods(t.Context()) }()
		controltest.Create(p, newJob(1, 1, func(s *batchv1.JobSpec) {
			deadline := int64(60)
			s.ActiveDeadlineSeconds = &deadline
		}))
		time.Sleep(55 * time.Second)
		want(t, p)
		time.Sleep(10 * time.Second)
		const text = "/DeadlineExceeded/Job was active longer than specified deadline"
		want(t, p, "FailureTarget"+text, "Failed"+text)
		if n := len(living(p)); n != 0 {
			t.Errorf("%d pods go on", n)
		}
	})
}

func TestSuspension(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := plane(t)
		go func() { _ = p.RunPods(t.Context()) }()
		yes, deadline := true, int64(60)
		controltest.Create(p, newJob(2, 2, func(s *batchv1.JobSpec) { s.Suspend, s.ActiveDeadlineSeconds = &yes, &deadline }))
		settle()
		job := want(t, p, "Suspended/JobSuspended/Job suspended")
		if job.Status.StartTime != nil || len(living(p)) != 0 {
			t.Errorf("got status %+v and %d pods", job.Status, len(living(p)))
		}
		suspend := func(suspended bool) {
			controltest.Change(p, "default", "work", func(job *batchv1.Job) { job.Spec.Suspend = &suspended })
		}
		time.Sleep(time.Hour)
		suspend(false)
		settle()
		job = want(t, p)
		if c := job.Status.Conditions[0]; c.Status != corev1.ConditionFalse || c.Reason != "JobResumed" || c.Message != "Job resumed" {
			t.Errorf("got condition %+v", c)
		}
		if len(living(p)) != 2 || time.Since(job.Status.StartTime.Time) > time.Minute {
			t.Errorf("got %d pods, started %v", len(living(p)), job.Status.StartTime)
		}
		suspend(true)
		settle()
		job = want(t, p, "Suspended/JobSuspended")
		if len(living(p)) != 0 || job.Status.Failed != 0 || job.Status.StartTime != nil || job.Status.Active != 0 {
			t.Errorf("got %d pods and status %+v", len(living(p)), job.Status)
		}
		if a, b := p.Events("Suspended"), p.Events("Resumed"); len(b) != 1 || b[0] != "Job resumed" || len(a) == 0 || a[0] != "Job suspended" {
			t.Errorf("got events %q and %q", a, b)
		}
	})
}

// TestAnothersJobIsLeftAlone checks managedBy.
func TestAnothersJobIsLeftAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := plane(t)
		other := "example.com/other"
		controltest.Create(p, newJob(1, 1, func(s *batchv1.JobSpec) { s.ManagedBy = &other }))
		settle()
		if got := theJob(p).Status; len(living(p)) != 0 || got.StartTime != nil {
			t.Errorf("got %d pods and status %+v", len(living(p)), got)
		}
	})
}

func TestReplacementPolicy(t *testing.T) {
	for policy, replaced := range map[batchv1.PodReplacementPolicy]int{batchv1.TerminatingOrFailed: 1, batchv1.Failed: 0} {
		t.Run(string(policy), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := plane(t)
				controltest.Create(p, newJob(1, 1, func(s *batchv1.JobSpec) { s.PodReplacementPolicy = &policy }))
				settle()
				pod := living(p)[0]
				controltest.Change(p, "default", pod.Name, func(pod *corev1.Pod) { pod.Finalizers = append(pod.Finalizers, "example.com/hold") })
				controltest.MarkReady(p, "default", pod.Name, true)
				grace := int64(3600)
				if err := client.Of[*corev1.Pod](p.Client).Delete(t.Context(), "default", pod.Name, metav1.DeleteOptions{GracePeriodSeconds: &grace}); err != nil {
					t.Fatal(err)
				}
				time.Sleep(20 * time.Second)
				if got := theJob(p).Status; len(living(p)) != replaced || *got.Terminating != 1 {
					t.Errorf("got %d pods and status %+v", len(living(p)), got)
				}
				if policy == batchv1.TerminatingOrFailed {
					return
				}
				end(p, pod, 1)
				time.Sleep(20 * time.Second)
				if got := theJob(p).Status; len(living(p)) != 1 || got.Failed != 1 {
					t.Errorf("after its end: got %d pods and status %+v", len(living(p)), got)
				}
			})
		})
	}
}

// TestPolicyForFailedPods checks what becomes of a Job without retries whose pod fails with code 42.
func TestPolicyForFailedPods(t *testing.T) {
	for action, want42 := range map[batchv1.PodFailurePolicyAction]struct {
		failed  int32
		message string
	}{
		batchv1.PodFailurePolicyActionFailJob: {1, "/PodFailurePolicy/Container c for pod default/work-"},
		batchv1.PodFailurePolicyActionCount:   {1, "/BackoffLimitExceeded/Job has reached"},
		batchv1.PodFailurePolicyActionIgnore:  {0, ""},
	} {
		t.Run(string(action), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := plane(t)
				controltest.Create(p, newJob(1, 1, func(s *batchv1.JobSpec) {
					*s.BackoffLimit = 0
					s.PodFailurePolicy = &batchv1.PodFailurePolicy{Rules: []batchv1.PodFailurePolicyRule{{
						Action: action, OnExitCodes: &batchv1.PodFailurePolicyOnExitCodesRequirement{
							Operator: batchv1.PodFailurePolicyOnExitCodesOpIn, Values: []int32{42},
						},
					}}}
				}))
				settle()
				end(p, living(p)[0], 42)
				time.Sleep(20 * time.Second)
				var conditions []string
				if want42.message != "" {
					conditions = []string{"FailureTarget" + want42.message, "Failed" + want42.message}
				}
				job := want(t, p, conditions...)
				if job.Status.Failed != want42.failed || len(living(p)) != 1-int(want42.failed) {
					t.Errorf("got %d failed and %d living pods", job.Status.Failed, len(living(p)))
				}
				wantReason := strings.Split(want42.message, "/")
				if want42.message != "" && len(p.Events(wantReason[1])) != 1 {
					t.Errorf("got no Event %s", wantReason[1])
				}
			})
		})
	}
}

func TestOrphansLoseTheFinalizer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := plane(t)
		job := controltest.Create(p, newJob(2, 2, nil))
		settle()
		stranger := living(p)[0].DeepCopy()
		stranger.Name, stranger.UID, stranger.Labels = "stranger", "uid-stranger", nil
		stranger.OwnerReferences[0].Kind = "Other"
		controltest.Change(p, "default", living(p)[1].Name, func(pod *corev1.Pod) { pod.Labels = nil })
		settle() // The second pod is released.
		wantReleased := 0
		for _, pod := range controltest.List[*corev1.Pod](p) {
			if metav1.GetControllerOfNoCopy(pod) == nil {
				wantReleased++
				if tracked(pod) {
					t.Error("a released pod has the finalizer")
				}
			}
		}
		if wantReleased != 1 {
			t.Errorf("%d pods were released", wantReleased)
		}
		p.Load(stranger)
		p.Remove(job)
		settle()
		for _, pod := range controltest.List[*corev1.Pod](p) {
			if tracked(pod) != (pod.Name == "stranger") {
				t.Errorf("pod %s has finalizers %q", pod.Name, pod.Finalizers)
			}
		}
	})
}

// TestAdoption checks that a pod without an owner counts, and is kept until it does.
func TestAdoption(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := plane(t)
		job := newJob(1, 1, nil)
		p.Load(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "lone", UID: "uid-lone", Labels: job.Spec.Template.Labels}})
		controltest.Create(p, job)
		settle()
		pods := living(p)
		if len(pods) != 1 || pods[0].Name != "lone" || !tracked(pods[0]) || metav1.GetControllerOfNoCopy(pods[0]) == nil {
			t.Fatalf("got pods %v", pods)
		}
		end(p, pods[0], 0)
		settle()
		want(t, p, "SuccessCriteriaMet", "Complete")
	})
}

// TestADeletedJobLetsItsPodsGo checks that nothing is created and no finalizer is left.
func TestADeletedJobLetsItsPodsGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := plane(t)
		job := newJob(2, 2, nil)
		job.Finalizers = []string{"example.com/hold"}
		controltest.Create(p, job)
		settle()
		if err := client.Of[*batchv1.Job](p.Client).Delete(t.Context(), "default", "work", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		settle()
		end(p, living(p)[0], 1)
		time.Sleep(time.Minute)
		if n := len(controltest.List[*corev1.Pod](p)); n != 2 {
			t.Errorf("got %d pods, want 2", n)
		}
		wantNothingTracked(t, p)
	})
}
