package serviceaccount

import (
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"go.uber.org/goleak"

	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/services/controllers/internal/controltest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestEveryNamespaceHasADefault(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := controltest.New(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "old"}})
		p.Allow("create /serviceaccounts")
		p.Declare(New)
		p.Start()
		controltest.Create(p, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "new"}})
		time.Sleep(time.Second)
		controltest.Get[*corev1.ServiceAccount](p, "old", "default")
		first := controltest.Get[*corev1.ServiceAccount](p, "new", "default")
		p.Remove(first)
		time.Sleep(time.Second)
		if again := controltest.Get[*corev1.ServiceAccount](p, "new", "default"); again.UID == first.UID {
			t.Error("the account was not created again")
		}
		// In a terminating namespace it is not created again: the deletion would never end.
		if err := client.Of[*corev1.Namespace](p.Client).Delete(t.Context(), "", "new", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		p.Remove(controltest.Get[*corev1.ServiceAccount](p, "new", "default"))
		time.Sleep(time.Minute)
		if accounts := controltest.List[*corev1.ServiceAccount](p); len(accounts) != 1 {
			t.Errorf("got %d accounts", len(accounts))
		}
	})
}
