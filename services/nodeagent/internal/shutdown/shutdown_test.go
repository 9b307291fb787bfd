package shutdown

import (
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/garboard/garboard/services/nodeagent/internal/podworkers"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func pod(name string, priority int32, grace int64) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)},
		Spec:       corev1.PodSpec{Priority: &priority, TerminationGracePeriodSeconds: &grace},
	}
}

// TestEndPods: each pod takes its configured time to end; told is when it was killed, with which
// grace period.
func TestEndPods(t *testing.T) {
	const none = time.Duration(-1)
	type one struct {
		pod   *corev1.Pod
		takes time.Duration // none: it does not end
		told  string
	}
	for name, c := range map[string]struct {
		period, critical time.Duration
		pods             []one
		took             time.Duration
	}{
		"nothing runs": {30 * time.Second, 10 * time.Second, nil, 0},
		"the critical last": {30 * time.Second, 10 * time.Second, []one{
			{pod("web", 0, 5), 3 * time.Second, "0s 5"},
			{pod("slow", 1000, 100), 4 * time.Second, "0s 18"},
			{pod("dns", 2_000_000_000, 30), time.Second, "4s 8"},
			{pod("net", 2_000_001_000, 1), time.Second, "4s 1"},
		}, 5 * time.Second},
		"one does not end": {30 * time.Second, 10 * time.Second, []one{
			{pod("hangs", 0, 5), none, "0s 5"},
			{pod("dns", 2_000_000_000, 30), time.Second, "20s 8"},
		}, 21 * time.Second},
		"nothing is critical": {10 * time.Second, 0, []one{{pod("web", 0, 600), 8 * time.Second, "0s 8"}}, 8 * time.Second},
		"hardly any time":     {time.Second, 0, []one{{pod("web", 0, 600), none, "0s 0"}}, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				told, ends := map[string]string{}, map[string]time.Time{}
				s := New(Config{
					Period: c.period, CriticalPods: c.critical, Logger: slog.New(slog.DiscardHandler),
					Pods: func() []*corev1.Pod {
						var pods []*corev1.Pod
						for _, one := range c.pods {
							pods = append(pods, one.pod)
						}
						return pods
					},
					Kill: func(pod *corev1.Pod, kill podworkers.Kill) {
						told[pod.Name] = fmt.Sprint(time.Since(began).Round(time.Second), " ", *kill.Grace)
						at := slices.IndexFunc(c.pods, func(one one) bool { return one.pod == pod })
						if takes := c.pods[at].takes; takes != none {
							ends[pod.Name] = time.Now().Add(takes)
						}
						if kill.Phase != corev1.PodFailed || kill.Reason != "Terminated" || kill.Message != "Pod was terminated in response to imminent node shutdown." || kill.Conditions[0].Reason != "TerminationByKubelet" {
							t.Errorf("%s is killed with %+v", pod.Name, kill)
						}
					},
					Ended: func(pod *corev1.Pod) bool { at, ok := ends[pod.Name]; return ok && !time.Now().Before(at) },
				})
				if s.Refuse() != nil {
					t.Error("a pod is refused before Begin")
				}
				s.Begin()
				if r := s.Refuse(); r == nil || r.Reason != "NodeShutdown" || r.Message != "Pod was rejected as the node is shutting down." {
					t.Errorf("a new pod: %+v", r)
				}
				s.EndPods(t.Context())
				if took := time.Since(began).Round(time.Second); took != c.took {
					t.Errorf("it took %v, want %v", took, c.took)
				}
				for _, one := range c.pods {
					if told[one.pod.Name] != one.told {
						t.Errorf("%s was killed with %q, want %q", one.pod.Name, told[one.pod.Name], one.told)
					}
				}
			})
		})
	}
}
