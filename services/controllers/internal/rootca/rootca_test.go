package rootca

import (
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"go.uber.org/goleak"

	"github.com/garboard/garboard/services/controllers/internal/controller"
	"github.com/garboard/garboard/services/controllers/internal/controltest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestEveryNamespaceHasTheCertificate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := controltest.New(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "a"}})
		p.Allow("create update /configmaps")
		p.Declare(func(d controller.Deps) *controller.Spec {
			spec, err := New(d, []byte("PEM"))
			if err != nil {
				t.Fatal(err)
			}
			return spec
		})
		p.Start()
		check := func(what string) *corev1.ConfigMap {
			t.Helper()
			time.Sleep(time.Second)
			m := controltest.Get[*corev1.ConfigMap](p, "a", "kube-root-ca.crt")
			if len(m.Data) != 1 || m.Data["ca.crt"] != "PEM" || m.Annotations["kubernetes.io/description"] == "" {
				t.Errorf("%s: %+v", what, m)
			}
			return m
		}
		m := check("made")
		controltest.Change(p, "a", m.Name, func(m *corev1.ConfigMap) { m.Data["ca.crt"] = "forged"; m.Data["x"] = "y" })
		check("changed by another client")
		p.Remove(m)
		check("deleted by another client")
	})
}

func TestNoCertificate(t *testing.T) {
	if _, err := New(controltest.New(t).Deps(), nil); err == nil {
		t.Error("got no error for a missing certificate")
	}
}
