package join

import (
	"context"
	"crypto"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"net/http"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/libs/backoff"
	"github.com/garboard/garboard/libs/client"
)

// csr abbreviates a long name.
type csr = certificatesv1.CertificateSigningRequest

// The waits between two checks of a request grow from firstLook to lastLook.
const (
	firstLook = 200 * time.Millisecond
	lastLook  = 5 * time.Second
)

// ask requests a certificate as the given caller and waits for it. Called again with the same
// pending key, it continues with the existing request.
func (j *Joiner) ask(ctx context.Context, by *caller) (*pair, error) {
	key, keyPEM, err := pendingKey(j.cfg.Dir)
	if err != nil {
		return nil, err
	}
	config := by.config
	config.Wrap(func(rt http.RoundTripper) http.RoundTripper { return clocks{rt, by.heard} })
	if j.cfg.Carry != nil {
		carried, end, err := j.cfg.Carry(ctx, config)
		if err != nil {
			return nil, err
		}
		defer end()
		config = carried
	}
	if j.cfg.Route != nil {
		routed, end, err := j.cfg.Route(config)
		if err != nil {
			return nil, err
		}
		defer end()
		config = routed
	}
	api, err := j.open(client.As(config, "kubelet"))
	if err != nil {
		return nil, err
	}
	requests := client.Of[*csr](api)
	name, err := j.post(ctx, requests, key)
	if err != nil {
		return nil, by.explain(ctx, err)
	}
	for look := firstLook; ; look = min(look*3/2, lastLook) {
		request, err := requests.Get(ctx, "", name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil, said(err, "the CertificateSigningRequest %s of this node was deleted before a certificate was issued; the node makes another", name)
		}
		if err != nil {
			return nil, by.explain(ctx, err)
		}
		if len(request.Status.Certificate) > 0 {
			return j.issued(by, name, request.Status.Certificate, keyPEM)
		}
		if err := decided(request); err != nil {
			return nil, err
		}
		j.notify(waits(request))
		if !backoff.Sleep(ctx, look) {
			return nil, ctx.Err()
		}
	}
}

// post posts the request for the certificate of a key and returns the request's name. The name is
// derived from the key, so each key has one request.
func (j *Joiner) post(ctx context.Context, requests client.Resource[*csr], key crypto.Signer) (string, error) {
	public, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return "", fmt.Errorf("naming a request: %w", err)
	}
	digest := sha256.New()
	digest.Write([]byte(j.cfg.NodeName))
	digest.Write(public)
	name := "node-csr-" + base64.RawURLEncoding.EncodeToString(digest.Sum(nil))
	template := &x509.CertificateRequest{Subject: pkix.Name{CommonName: userPrefix + j.cfg.NodeName, Organization: []string{nodesGroup}}}
	der, err := x509.CreateCertificateRequest(rand.Reader, template, key)
	if err != nil {
		return "", fmt.Errorf("creating a certificate request: %w", err)
	}
	_, err = requests.Create(ctx, &csr{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request:    pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}),
			SignerName: certificatesv1.KubeAPIServerClientKubeletSignerName,
			Usages:     []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageClientAuth},
		},
	}, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return name, nil
	}
	if err == nil {
		j.cfg.Logger.Info("requested the node's certificate", "name", name, "node", j.cfg.NodeName)
	}
	return name, err
}

// issued checks and returns the certificate of a request.
func (j *Joiner) issued(by *caller, name string, cert, key []byte) (*pair, error) {
	made, err := parsePair(cert, key)
	if err == nil {
		err = made.check(j.cfg.NodeName)
	}
	if err != nil {
		return nil, said(err, "the certificate in the CertificateSigningRequest %s is not the requested one: %s; correct the signer and delete the request", name, err)
	}
	now := time.Now()
	if !now.After(made.leaf.NotAfter) {
		return made, nil
	}
	text := fmt.Sprintf("the new certificate of this node ended on %s by this machine's clock, which says %s", stamp(made.leaf.NotAfter), stamp(now))
	if by.ahead != nil && abs(*by.ahead) > tolerated {
		return nil, said(errEnded, "%s and is %s that of the apiserver: set the clock", text, skew(*by.ahead))
	}
	// The request may be an old one.
	if err := forgetPending(j.cfg.Dir); err != nil {
		return nil, err
	}
	return nil, said(errEnded, "%s: the node asks for another", text)
}

// decided returns an error if the request was denied or failed.
func decided(request *csr) error {
	for _, condition := range request.Status.Conditions {
		if condition.Status != corev1.ConditionTrue && condition.Status != "" {
			continue
		}
		why := condition.Message
		if condition.Reason != "" {
			why = condition.Reason + ": " + why
		}
		switch condition.Type {
		case certificatesv1.CertificateDenied:
			return said(errRefused, "the CertificateSigningRequest %s of this node was denied (%s): `kubectl delete csr %s` has the node ask again", request.Name, why, request.Name)
		case certificatesv1.CertificateFailed:
			return said(errRefused, "the CertificateSigningRequest %s of this node was approved and could not be signed (%s): `kubectl delete csr %s` has the node ask again", request.Name, why, request.Name)
		}
	}
	return nil
}

// waits returns what a pending request is waiting for.
func waits(request *csr) error {
	for _, condition := range request.Status.Conditions {
		if condition.Type == certificatesv1.CertificateApproved {
			return said(errWaits, "the CertificateSigningRequest %s of this node is approved and waits to be signed: the controllers do that when they run with --cluster-signing-cert-file and --cluster-signing-key-file", request.Name)
		}
	}
	return said(errWaits, "the CertificateSigningRequest %s of this node waits to be approved: the controllers do that if `garboard token create` has made the ClusterRoleBindings for it, and an administrator with `kubectl certificate approve %s`", request.Name, request.Name)
}
