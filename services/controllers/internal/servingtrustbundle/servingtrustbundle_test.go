package servingtrustbundle

import (
	"context"
	"errors"
	"maps"
	"testing"
	"testing/synctest"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"go.uber.org/goleak"

	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/controllers/internal/controller"
	"github.com/garboard/garboard/services/controllers/internal/controltest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// ours is the name of the bundle with the certificates "CA": the digest's first 12 bytes.
const ours = "kubernetes.io:kube-apiserver-serving:4b650e5c4785025dee7bd65e"

func declare(t *testing.T, ca string) func(controller.Deps) *controller.Spec {
	return func(d controller.Deps) *controller.Spec {
		t.Helper()
		spec, err := New(d, []byte(ca))
		if err != nil {
			t.Fatal(err)
		}
		return spec
	}
}

func of(signer, name, ca string) *bundle {
	return &bundle{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: certificatesv1.ClusterTrustBundleSpec{SignerName: signer, TrustBundle: ca}}
}

// published returns the certificates of all bundles, by name.
func published(p *controltest.Plane) map[string]string {
	got := map[string]string{}
	for _, b := range controltest.List[*bundle](p) {
		got[b.Name] = b.Spec.SignerName + " " + b.Spec.TrustBundle
	}
	return got
}

func settle() {
	time.Sleep(time.Minute)
	synctest.Wait()
}

// TestBundles checks what becomes of the bundles that exist. The cases are those of Kubernetes.
func TestBundles(t *testing.T) {
	good := signer + " CA"
	for name, c := range map[string]struct {
		objs []scheme.Object
		want map[string]string
	}{
		"none":               {nil, map[string]string{ours: good}},
		"of others":          {[]scheme.Object{of("", "no-signer", "x"), of("example.com/a", "example.com:a:b", "x")}, map[string]string{"no-signer": " x", "example.com:a:b": "example.com/a x", ours: good}},
		"the right one":      {[]scheme.Object{of(signer, ours, "CA")}, map[string]string{ours: good}},
		"with other content": {[]scheme.Object{of(signer, ours, "other")}, map[string]string{ours: good}},
		"of before":          {[]scheme.Object{of(signer, "kubernetes.io:kube-apiserver-serving:before", "old"), of(signer, "kubernetes.io:kube-apiserver-serving:x", "older")}, map[string]string{ours: good}},
	} {
		synctest.Test(t, func(t *testing.T) {
			p := controltest.New(t, c.objs...)
			p.Allow("create update delete certificates.k8s.io/clustertrustbundles")
			p.Declare(declare(t, "CA"))
			p.Start()
			settle()
			if got := published(p); !maps.Equal(got, c.want) {
				t.Errorf("%s: got %q, want %q", name, got, c.want)
			}
			// What others change comes back.
			p.Remove(of(signer, ours, ""))
			settle()
			controltest.Create(p, of(signer, "kubernetes.io:kube-apiserver-serving:false", "false"))
			settle()
			controltest.Change(p, "", ours, func(b *bundle) { b.Spec.TrustBundle = "false" })
			settle()
			if got := published(p); !maps.Equal(got, c.want) {
				t.Errorf("%s, after changes: got %q, want %q", name, got, c.want)
			}
		})
	}
}

func TestNothingToPublish(t *testing.T) {
	if _, err := New(controltest.New(t).Deps(), nil); err == nil {
		t.Error("a controller without a certificate is created")
	}
}

// TestFailuresAreTriedAgain checks that a new bundle is there before the old one goes, also in a second
// term, and that nothing is written twice.
func TestFailuresAreTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const before = "kubernetes.io:kube-apiserver-serving:before"
		p := controltest.New(t, of(signer, before, "old"))
		calls := map[string]int{}
		p.Fail(func(call client.Call) error {
			if call.Kind.Kind != "ClusterTrustBundle" || call.Verb != "create" && call.Verb != "delete" {
				return nil
			}
			if calls[call.Verb]++; calls[call.Verb] < 4 {
				return errors.New("not now")
			}
			return nil
		})
		runner := p.Runner(declare(t, "CA"))
		p.Start()
		for range 2 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			if err := runner.Run(ctx); err != nil {
				t.Error(err)
			}
			cancel()
		}
		if got := published(p); !maps.Equal(got, map[string]string{ours: signer + " CA"}) || calls["create"] != 4 || calls["delete"] != 4 {
			t.Errorf("got %q after the calls %v", got, calls)
		}
	})
}
