package podcertificaterequestcleaner

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"go.uber.org/goleak"

	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/controllers/internal/controltest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// request returns a request of an age.
func request(name string, age time.Duration) *certificatesv1.PodCertificateRequest {
	return &certificatesv1.PodCertificateRequest{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ns", Name: name, CreationTimestamp: metav1.NewTime(time.Now().Add(-age)),
	}}
}

func plane(t *testing.T, objs ...scheme.Object) *controltest.Plane {
	t.Helper()
	p := controltest.New(t, objs...)
	p.Allow("delete certificates.k8s.io/podcertificaterequests")
	p.Declare(New)
	p.Start()
	return p
}

// expect checks which requests exist after a time.
func expect(t *testing.T, p *controltest.Plane, after time.Duration, want ...string) {
	t.Helper()
	time.Sleep(after)
	synctest.Wait()
	got := []string{}
	for _, r := range controltest.List[*certificatesv1.PodCertificateRequest](p) {
		got = append(got, r.Name)
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestOldRequestsAreDeleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := plane(t, request("new", 0), request("old", 15*time.Minute), request("younger", 10*time.Minute))
		expect(t, p, time.Second, "new", "younger")
		controltest.SetStatus(p, "ns", "younger", func(r *certificatesv1.PodCertificateRequest) {
			r.Status.Conditions = []metav1.Condition{{Type: certificatesv1.PodCertificateRequestConditionTypeIssued, Status: metav1.ConditionTrue}}
		})
		expect(t, p, 4*time.Minute+58*time.Second, "new", "younger")
		expect(t, p, 2*time.Second, "new")
		expect(t, p, 9*time.Minute+58*time.Second, "new")
		expect(t, p, 2*time.Second)
	})
}

func TestADeletionThatFailsIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := controltest.New(t, request("old", time.Hour))
		failures := 0
		p.Fail(func(call client.Call) error {
			if call.Verb == "delete" && failures < 3 {
				failures++
				return errors.New("not now")
			}
			return nil
		})
		p.Declare(New)
		p.Start()
		expect(t, p, time.Minute)
		if failures != 3 {
			t.Errorf("got %d failures", failures)
		}
	})
}

// TestAnotherOfTheSameNameIsLeft checks that a request that takes the name of one that is being deleted
// lives its own life.
func TestAnotherOfTheSameNameIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := controltest.New(t, request("r", time.Hour))
		p.Fail(func(call client.Call) error {
			if call.Verb == "delete" {
				p.Fail(nil)
				p.Remove(request("r", 0))
				controltest.Create(p, request("r", 0))
			}
			return nil
		})
		p.Declare(New)
		p.Start()
		expect(t, p, time.Minute, "r")
		expect(t, p, 15*time.Minute)
	})
}
