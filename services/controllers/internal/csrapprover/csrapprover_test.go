package csrapprover

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"net"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"go.uber.org/goleak"

	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/controllers/internal/controltest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type csr = certificatesv1.CertificateSigningRequest

// nodeRequest returns a valid request for a node's client certificate, with changes.
func nodeRequest(t *testing.T, change func(*csr, *x509.CertificateRequest)) *csr {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.CertificateRequest{Subject: pkix.Name{CommonName: "system:node:n1", Organization: []string{"system:nodes"}}}
	request := &csr{
		ObjectMeta: metav1.ObjectMeta{Name: "r"},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			SignerName: certificatesv1.KubeAPIServerClientKubeletSignerName, Username: "system:bootstrap:abcdef", UID: "u",
			Groups: []string{"system:bootstrappers"}, Extra: map[string]certificatesv1.ExtraValue{"k": {"v"}},
			Usages: []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageClientAuth},
		},
	}
	if change != nil {
		change(request, template)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, template, key)
	if err != nil {
		t.Fatal(err)
	}
	if request.Spec.Request == nil {
		request.Spec.Request = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
	}
	return request
}

// plane runs the controller; allow decides which user may create which subresource, and asked
// records the questions.
func plane(t *testing.T, allow func(authorizationv1.SubjectAccessReviewSpec) (bool, error)) (p *controltest.Plane, asked *[]string) {
	t.Helper()
	p, asked = controltest.New(t), &[]string{}
	p.Allow("get list watch delete certificates.k8s.io/certificatesigningrequests",
		"update certificates.k8s.io/certificatesigningrequests/approval", "create authorization.k8s.io/subjectaccessreviews", "get /nodes", controltest.Events)
	p.OnReview(func(question scheme.Object) error {
		review := question.(*authorizationv1.SubjectAccessReview)
		*asked = append(*asked, review.Spec.ResourceAttributes.Subresource)
		var err error
		review.Status.Allowed, err = allow(review.Spec)
		return err
	})
	p.Declare(New)
	p.Start()
	return p, asked
}

func TestApproval(t *testing.T) {
	const self, other = "Auto approving self kubelet client certificate after SubjectAccessReview.", "Auto approving kubelet client certificate after SubjectAccessReview."
	usages := func(list ...certificatesv1.KeyUsage) func(*csr, *x509.CertificateRequest) {
		return func(r *csr, _ *x509.CertificateRequest) { r.Spec.Usages = list }
	}
	for name, test := range map[string]struct {
		change  func(*csr, *x509.CertificateRequest)
		allowed []string
		message string
		asked   []string
	}{
		"a new node":          {nil, []string{"nodeclient"}, other, []string{"nodeclient"}},
		"a node itself":       {func(r *csr, _ *x509.CertificateRequest) { r.Spec.Username = "system:node:n1" }, []string{"selfnodeclient"}, self, []string{"selfnodeclient"}},
		"itself, as any node": {func(r *csr, _ *x509.CertificateRequest) { r.Spec.Username = "system:node:n1" }, []string{"nodeclient"}, other, []string{"selfnodeclient", "nodeclient"}},
		"another node":        {func(r *csr, _ *x509.CertificateRequest) { r.Spec.Username = "system:node:n2" }, []string{"selfnodeclient"}, "", []string{"nodeclient"}},
		"RSA usages":          {usages(certificatesv1.UsageClientAuth, certificatesv1.UsageKeyEncipherment, certificatesv1.UsageDigitalSignature), []string{"nodeclient"}, other, []string{"nodeclient"}},
		"another signer":      {func(r *csr, _ *x509.CertificateRequest) { r.Spec.SignerName = certificatesv1.KubeletServingSignerName }, []string{"nodeclient"}, "", nil},
		"server usages":       {usages(certificatesv1.UsageDigitalSignature, certificatesv1.UsageServerAuth), []string{"nodeclient"}, "", nil},
		"an extra usage":      {usages(certificatesv1.UsageDigitalSignature, certificatesv1.UsageClientAuth, certificatesv1.UsageServerAuth), []string{"nodeclient"}, "", nil},
		"a missing usage":     {usages(certificatesv1.UsageClientAuth, certificatesv1.UsageKeyEncipherment), []string{"nodeclient"}, "", nil},
		"an organization":     {func(_ *csr, c *x509.CertificateRequest) { c.Subject.Organization = []string{"system:masters"} }, []string{"nodeclient"}, "", nil},
		"two organizations": {func(_ *csr, c *x509.CertificateRequest) {
			c.Subject.Organization = []string{"system:masters", "system:nodes"}
		}, []string{"nodeclient"}, "", nil},
		"no node's name": {func(_ *csr, c *x509.CertificateRequest) { c.Subject.CommonName = "admin" }, []string{"nodeclient"}, "", nil},
		"a DNS name":     {func(_ *csr, c *x509.CertificateRequest) { c.DNSNames = []string{"x"} }, []string{"nodeclient"}, "", nil},
		"an address":     {func(_ *csr, c *x509.CertificateRequest) { c.IPAddresses = []net.IP{net.IPv4(1, 2, 3, 4)} }, []string{"nodeclient"}, "", nil},
		"a mail address": {func(_ *csr, c *x509.CertificateRequest) { c.EmailAddresses = []string{"a@b"} }, []string{"nodeclient"}, "", nil},
		"a URI":          {func(_ *csr, c *x509.CertificateRequest) { c.URIs = []*url.URL{{Scheme: "a", Host: "b"}} }, []string{"nodeclient"}, "", nil},
		"no PEM":         {func(r *csr, _ *x509.CertificateRequest) { r.Spec.Request = []byte("x") }, []string{"nodeclient"}, "", nil},
		"not allowed":    {nil, nil, "", []string{"nodeclient"}},
	} {
		t.Run(name, func(t *testing.T) {
			request := nodeRequest(t, test.change)
			synctest.Test(t, func(t *testing.T) {
				p, asked := plane(t, func(spec authorizationv1.SubjectAccessReviewSpec) (bool, error) {
					a := spec.ResourceAttributes
					if spec.User != request.Spec.Username || spec.UID != "u" || len(spec.Groups) != 1 || len(spec.Extra["k"]) != 1 ||
						a.Group != "certificates.k8s.io" || a.Resource != "certificatesigningrequests" || a.Verb != "create" || a.Name != "" {
						t.Errorf("got the review %+v, %+v, want the requester's", spec, a)
					}
					return slices.Contains(test.allowed, a.Subresource), nil
				})
				controltest.Create(p, request)
				time.Sleep(500 * time.Millisecond)
				synctest.Wait()
				message := ""
				if got := controltest.Get[*csr](p, "", "r").Status.Conditions; len(got) == 1 && got[0].Type == certificatesv1.CertificateApproved &&
					got[0].Status == "True" && got[0].Reason == "AutoApproved" {
					message = got[0].Message
				} else if len(got) != 0 {
					t.Errorf("got conditions %+v", got)
				}
				if message != test.message || !slices.Equal(*asked, test.asked) {
					t.Errorf("got message %q, want %q; reviewed %q, want %q", message, test.message, *asked, test.asked)
				}
			})
		})
	}
}

// node returns a node whose Ready condition has the given status; it has no condition if that is
// empty.
func node(name string, status corev1.ConditionStatus) *corev1.Node {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if status != "" {
		node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: status}}
	}
	return node
}

// TestNodesThatLive checks that a bootstrap token gets no certificate for a living node until the
// node is silent or deleted. The node itself always gets one.
func TestNodesThatLive(t *testing.T) {
	silent := func(p *controltest.Plane) {
		controltest.SetStatus(p, "", "n1", func(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionUnknown })
	}
	deleted := func(p *controltest.Plane) {
		if err := client.Of[*corev1.Node](p.Client).Delete(p.Context(), "", "n1", metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	}
	for name, test := range map[string]struct {
		node     *corev1.Node
		user     string
		at, then bool // approved at once, and after the change
		change   func(*controltest.Plane)
	}{
		"no such node":               {node: node("n2", "True"), at: true},
		"a node that never reported": {node: node("n1", ""), at: true},
		"a silent node":              {node: node("n1", "Unknown"), at: true},
		"a ready node":               {node: node("n1", "True")},
		"a node that is not ready":   {node: node("n1", "False")},
		"a node that lost its disk":  {node: node("n1", "True"), then: true, change: silent},
		"a node that is deleted":     {node: node("n1", "True"), then: true, change: deleted},
		"the node itself":            {node: node("n1", "True"), user: "system:node:n1", at: true},
		"another node":               {node: node("n1", "True"), user: "system:node:n2"},
	} {
		t.Run(name, func(t *testing.T) {
			request := nodeRequest(t, func(r *csr, _ *x509.CertificateRequest) {
				if test.user != "" {
					r.Spec.Username = test.user
				}
			})
			synctest.Test(t, func(t *testing.T) {
				p, _ := plane(t, func(authorizationv1.SubjectAccessReviewSpec) (bool, error) { return true, nil })
				controltest.Create(p, test.node)
				synctest.Wait()
				controltest.Create(p, request)
				look := func(when string, want bool) {
					synctest.Wait()
					if got := len(controltest.Get[*csr](p, "", "r").Status.Conditions) == 1; got != want {
						t.Errorf("%s: got approved %v", when, got)
					}
					held := p.Events("NodeStillAlive")
					if !want && (len(held) != 1 || !strings.Contains(held[0], "of node n1, which has one and is alive")) || test.at && len(held) > 0 {
						t.Errorf("%s: got Events %q", when, held)
					}
				}
				time.Sleep(10 * time.Minute)
				look("at first", test.at)
				if test.change != nil {
					test.change(p)
					// The request does not wait for the next check.
					time.Sleep(100 * time.Millisecond)
					look("later", test.then)
				}
			})
		})
	}
}

func TestDecidedRequestsAreLeft(t *testing.T) {
	for name, change := range map[string]func(*csr){
		"denied": func(r *csr) {
			r.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{Type: certificatesv1.CertificateDenied}}
		},
		"approved": func(r *csr) {
			r.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{Type: certificatesv1.CertificateApproved}}
		},
		"issued": func(r *csr) { r.Status.Certificate = []byte("x") },
	} {
		request := nodeRequest(t, nil)
		change(request)
		synctest.Test(t, func(t *testing.T) {
			p, asked := plane(t, func(authorizationv1.SubjectAccessReviewSpec) (bool, error) { return true, nil })
			p.Load(request)
			time.Sleep(time.Second)
			synctest.Wait()
			if len(*asked) != 0 || len(p.Writes()) != 0 {
				t.Errorf("%s: got reviews %q and %d writes, want none", name, *asked, len(p.Writes()))
			}
		})
	}
}

// TestARightThatComesLater checks that a request is approved once its requester has the right, and
// how often the right is checked until then.
func TestARightThatComesLater(t *testing.T) {
	request := nodeRequest(t, nil)
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		p, asked := plane(t, func(authorizationv1.SubjectAccessReviewSpec) (bool, error) {
			switch age := time.Since(start); {
			case age < 10*time.Second:
				return false, errors.New("no answer")
			case age < 24*time.Hour:
				return false, nil
			}
			return true, nil
		})
		controltest.Create(p, request)
		time.Sleep(25 * time.Hour)
		synctest.Wait()
		if got := controltest.Get[*csr](p, "", "r").Status.Conditions; len(got) != 1 {
			t.Errorf("got conditions %+v", got)
		}
		if n := len(*asked); n < 10 || n > 200 {
			t.Errorf("got %d reviews", n)
		}
	})
}
