package csrcleaner

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"testing"
	"testing/synctest"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"go.uber.org/goleak"

	"github.com/garboard/garboard/services/controllers/internal/controltest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type csr = certificatesv1.CertificateSigningRequest

func certificate(t *testing.T, end time.Time) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: end}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

func TestDeadline(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	ago := func(d time.Duration) metav1.Time { return metav1.NewTime(now.Add(-d)) }
	is := func(request *csr, condition certificatesv1.RequestConditionType, since metav1.Time) *csr {
		request.Status.Conditions = append(request.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
			Type: condition, Status: corev1.ConditionTrue, LastUpdateTime: since,
		})
		return request
	}
	old := func(certificate []byte) *csr {
		return &csr{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: ago(100 * time.Hour)}, Status: certificatesv1.CertificateSigningRequestStatus{Certificate: certificate}}
	}
	for name, test := range map[string]struct {
		request *csr
		want    time.Time
	}{
		"pending":                    {old(nil), ago(76 * time.Hour).Time},
		"approved, issued":           {is(old([]byte("x")), certificatesv1.CertificateApproved, ago(0)), now.Add(time.Hour)},
		"issued, ends before":        {is(old(certificate(t, now.Add(time.Minute))), certificatesv1.CertificateApproved, ago(0)), now.Add(time.Minute)},
		"issued, ends later":         {is(old(certificate(t, now.Add(100*time.Hour))), certificatesv1.CertificateApproved, ago(0)), now.Add(time.Hour)},
		"approved, not issued":       {is(old(nil), certificatesv1.CertificateApproved, ago(0)), now.Add(24 * time.Hour)},
		"denied":                     {is(old(nil), certificatesv1.CertificateDenied, ago(0)), now.Add(time.Hour)},
		"failed":                     {is(old(nil), certificatesv1.CertificateFailed, ago(0)), now.Add(time.Hour)},
		"approved and failed":        {is(is(old(nil), certificatesv1.CertificateApproved, ago(0)), certificatesv1.CertificateFailed, ago(0)), now.Add(time.Hour)},
		"denied at an unknown time":  {is(old(nil), certificatesv1.CertificateDenied, metav1.Time{}), time.Time{}},
		"approved at an unknown one": {is(old([]byte("x")), certificatesv1.CertificateApproved, metav1.Time{}), time.Time{}},
		"a foreign condition":        {is(old(nil), "Other", ago(0)), time.Time{}},
		"created at an unknown time": {&csr{}, time.Time{}},
	} {
		if got, reason := deadline(test.request); !got.Equal(test.want) || got.IsZero() != (reason == "") {
			t.Errorf("%s: got %v (%s), want %v", name, got, reason, test.want)
		}
	}
}

func TestCleansAtTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := controltest.New(t)
		p.Allow("get list watch delete certificates.k8s.io/certificatesigningrequests")
		p.Declare(New)
		p.Start()
		for _, name := range []string{"pending", "denied"} {
			controltest.Create(p, &csr{ObjectMeta: metav1.ObjectMeta{Name: name}})
		}
		controltest.SetStatus(p, "", "denied", func(r *csr) {
			r.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{
				Type: certificatesv1.CertificateDenied, Status: corev1.ConditionTrue, LastUpdateTime: metav1.Now(),
			}}
		})
		count := func(when string, want int) {
			t.Helper()
			synctest.Wait()
			if n := len(controltest.List[*csr](p)); n != want {
				t.Errorf("%s: got %d requests, want %d", when, n, want)
			}
		}
		time.Sleep(59 * time.Minute)
		count("before the first deadline", 2)
		time.Sleep(2 * time.Minute)
		count("after the first", 1)
		time.Sleep(22 * time.Hour)
		count("before the second", 1)
		time.Sleep(2 * time.Hour)
		count("after the second", 0)
	})
}
