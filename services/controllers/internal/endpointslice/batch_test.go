package endpointslice

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/garboard/garboard/services/controllers/internal/controltest"
)

// TestManyServicesAreBatched makes the pods of many Services ready three times, a second apart, and checks that the
// slices of most are written once, with the last state.
func TestManyServicesAreBatched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 150
		p := start(t)
		for i := range n {
			app := map[string]string{"app": fmt.Sprint(i)}
			p.Load(pod(i, func(pod *corev1.Pod) { pod.Labels = app }))
			controltest.Create(p, service(func(svc *corev1.Service) { svc.Name, svc.Spec.Selector = fmt.Sprint("s", i), app }))
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		writes(p)
		controltest.Flap(p, "web-", n)
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := writes(p); got < n || got > n+n/2 {
			t.Errorf("got %d writes for %d Services", got, n)
		}
		for _, slice := range slicesOf(p) {
			if got := conditions(slice.Endpoints[0]); got != "" {
				t.Errorf("slice %s says %s, want not ready", slice.Name, got)
			}
		}
	})
}
