package job

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/services/controllers/internal/controller"
	"github.com/garboard/garboard/services/controllers/internal/controltest"
)

// unreliable is a client whose writes fail now and then, before or after they are carried out.
type unreliable struct {
	client.Interface
	mu     sync.Mutex
	random *rand.Rand
	// chance is that of a fault, in percent.
	chance int
	writes int
}

func (u *unreliable) Do(ctx context.Context, call client.Call, into runtime.Object) error {
	if call.Verb == "get" || call.Verb == "list" || call.Verb == "watch" || call.Kind.Resource == "events" {
		return u.Interface.Do(ctx, call, into)
	}
	u.mu.Lock()
	u.writes++
	before, after := u.random.IntN(100) < u.chance, u.random.IntN(100) < u.chance
	u.mu.Unlock()
	if before {
		return errors.New("a fault before the write")
	}
	err := u.Interface.Do(ctx, call, into)
	if after && call.Verb != "create" { // The queue itself repeats creations whose outcome is unknown.
		return errors.New("a fault after the write")
	}
	return err
}

// TestCountsExactly checks that every pod is counted once, whatever calls fail, and when the controller
// changes hands in between.
func TestCountsExactly(t *testing.T) {
	for seed := range uint64(8) {
		for _, isIndexed := range []bool{false, true} {
			t.Run(fmt.Sprintf("seed %d, indexed %v", seed, isIndexed), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { countsExactly(t, seed, isIndexed) })
			})
		}
	}
}

func countsExactly(t *testing.T, seed uint64, isIndexed bool) {
	const completions = 12
	p := controltest.New(t)
	faulty := &unreliable{Interface: p.Client, random: rand.New(rand.NewPCG(seed, 1)), chance: 25}
	p.Config.Client = controller.Client(faulty)
	runner := p.Runner(New)
	p.Start()
	controltest.Create(p, newJob(completions, 4, func(s *batchv1.JobSpec) {
		if isIndexed {
			indexedMode(s)
		}
		*s.BackoffLimit = 1000
	}))
	random := rand.New(rand.NewPCG(seed, 2))
	failed := int32(0)
	for term := 0; !finished(theJob(p)) && term < 400; term++ {
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
		ended := make(chan error, 1)
		go func() { ended <- runner.Run(ctx) }()
		for range 4 {
			time.Sleep(time.Duration(random.IntN(20)) * time.Second)
			for _, pod := range living(p) {
				switch random.IntN(3) {
				case 0:
					end(p, pod, 0)
				case 1:
					end(p, pod, 1)
					failed++
				}
			}
		}
		time.Sleep(time.Duration(random.IntN(10)) * time.Second)
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	job := want(t, p, "SuccessCriteriaMet", "Complete")
	succeeded := int32(0)
	for _, pod := range controltest.List[*corev1.Pod](p) {
		if pod.Status.Phase == corev1.PodSucceeded {
			succeeded++
		}
	}
	if succeeded < completions || job.Status.Succeeded != succeeded && !isIndexed || isIndexed && job.Status.Succeeded != completions {
		t.Errorf("%d pods succeeded, the status says %d", succeeded, job.Status.Succeeded)
	}
	if job.Status.Failed != failed {
		t.Errorf("%d pods failed, the status says %d", failed, job.Status.Failed)
	}
	wantNothingTracked(t, p)
}

// TestActsOnceOnAStaleCache checks that no pod is created twice, however late the pod informer is, and
// that none is counted twice.
func TestActsOnceOnAStaleCache(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := controltest.NewLate(t, "Pod", 3*time.Second)
		p.Declare(New)
		p.Start()
		controltest.Create(p, newJob(6, 3, nil))
		for i := range 150 {
			controltest.Change(p, "default", "work", func(job *batchv1.Job) {
				job.Annotations = map[string]string{"n": fmt.Sprint(i)}
				job.Generation++
			})
			time.Sleep(time.Second)
			if i%10 == 9 {
				for _, pod := range living(p) {
					end(p, pod, 0)
				}
			}
		}
		time.Sleep(time.Minute)
		job := want(t, p, "SuccessCriteriaMet", "Complete")
		if n := len(controltest.List[*corev1.Pod](p)); n != 6 || job.Status.Succeeded != 6 {
			t.Errorf("got %d pods, %d counted, want 6", n, job.Status.Succeeded)
		}
	})
}

// TestAbsurdJobs checks that large numbers cost no more than one burst of pods.
func TestAbsurdJobs(t *testing.T) {
	for _, isIndexed := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			p := plane(t)
			controltest.Create(p, newJob(2147483647, 2147483647, func(s *batchv1.JobSpec) {
				if isIndexed {
					indexedMode(s)
				}
			}))
			time.Sleep(batchPeriod / 2)
			if n := len(living(p)); n != burst {
				t.Errorf("got %d pods at first, want %d", n, burst)
			}
		})
	}
}
