package certificates

import (
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/kinds"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/kindtest"
)

// TestRows checks that the columns and cells are those that kubectl shows against Kubernetes.
func TestRows(t *testing.T) {
	meta := metav1.ObjectMeta{Name: "one", CreationTimestamp: kindtest.Ago(5 * time.Minute)}
	request := []string{"Name", "PodName", "ServiceAccountName", "NodeName", "SignerName", "State", "UnverifiedUserAnnotations"}
	for _, tc := range []struct {
		name    string
		kind    *kinds.Definition
		obj     scheme.Object
		columns []string
		cells   []any
	}{
		{
			"certificate signing request", CertificateSigningRequest(), &certificatesv1.CertificateSigningRequest{
				ObjectMeta: meta,
				Spec:       certificatesv1.CertificateSigningRequestSpec{SignerName: "example.com/s", Username: "ann", ExpirationSeconds: new(int32(3600))},
				Status: certificatesv1.CertificateSigningRequestStatus{
					Certificate: []byte("x"), Conditions: []certificatesv1.CertificateSigningRequestCondition{{Type: "Approved"}, {Type: "Failed"}},
				},
			},
			[]string{"Name", "Age", "SignerName", "Requestor", "RequestedDuration", "Condition"},
			[]any{"one", "5m", "example.com/s", "ann", "60m", "Approved,Failed,Issued"},
		},
		{
			"fresh certificate signing request", CertificateSigningRequest(), &certificatesv1.CertificateSigningRequest{ObjectMeta: meta},
			[]string{"Name", "Age", "SignerName", "Requestor", "RequestedDuration", "Condition"},
			[]any{"one", "5m", "<none>", "", "<none>", "Pending"},
		},
		{
			"denied certificate signing request", CertificateSigningRequest(), &certificatesv1.CertificateSigningRequest{
				ObjectMeta: meta, Status: certificatesv1.CertificateSigningRequestStatus{
					Conditions: []certificatesv1.CertificateSigningRequestCondition{{Type: "Denied"}, {Type: "Approved"}},
				},
			},
			[]string{"Name", "Age", "SignerName", "Requestor", "RequestedDuration", "Condition"},
			[]any{"one", "5m", "<none>", "", "<none>", "Denied"},
		},
		{"trust bundle", ClusterTrustBundle(), &certificatesv1.ClusterTrustBundle{ObjectMeta: meta}, []string{"Name", "SignerName"}, []any{"one", "<none>"}},
		{
			"trust bundle of a signer", ClusterTrustBundle(), &certificatesv1.ClusterTrustBundle{ObjectMeta: meta, Spec: certificatesv1.ClusterTrustBundleSpec{SignerName: "a.b/c"}},
			[]string{"Name", "SignerName"}, []any{"one", "a.b/c"},
		},
		{
			"pod certificate request", PodCertificateRequest(), &certificatesv1.PodCertificateRequest{ObjectMeta: meta, Spec: certificatesv1.PodCertificateRequestSpec{
				PodName: "p", ServiceAccountName: "sa", NodeName: "n", SignerName: "a.b/c", UnverifiedUserAnnotations: map[string]string{"a.b/k": "v"},
			}},
			request, []any{"one", "p", "sa", "n", "a.b/c", "Pending", "a.b/k=v"},
		},
		{
			"denied pod certificate request", PodCertificateRequest(), &certificatesv1.PodCertificateRequest{ObjectMeta: meta, Status: certificatesv1.PodCertificateRequestStatus{
				Conditions: []metav1.Condition{{Type: "Denied"}, {Type: "Else"}},
			}},
			request, []any{"one", "", "", "", "", "Denied", "<none>"},
		},
	} {
		t.Run(tc.name, func(t *testing.T) { kindtest.Row(t, tc.kind, tc.obj, tc.columns, tc.cells) })
	}
}
