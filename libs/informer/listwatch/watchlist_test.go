package listwatch_test

import (
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/garboard/garboard/libs/informer"
)

// TestAWatchListThatIsTooOld checks that a whole view older than the requested version is not
// accepted, neither from a watch nor from a list.
func TestAWatchListThatIsTooOld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{
			watchList: func(n int, _ *metav1.ListOptions) (watch.Interface, error) {
				w := watch.NewFakeWithChanSize(100, false)
				bookmark(w, []string{"32", "35"}[min(n, 2)-1])
				return w, nil
			},
			list:  func(int) (*corev1.PodList, error) { return listOf("41", ""), nil },
			watch: quietWatch,
		}
		to, f, end := run(t, s, informer.View{})
		pass(time.Second)
		f.Require(40)
		pass(time.Minute)
		to.expect(t, "0 objects at 32", "0 objects at 41")
		expectVersions(t, "lists", s.lists, "40")
		end()
	})
}
