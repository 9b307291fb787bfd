// Package bootstrapsigner signs the ConfigMap kube-public/cluster-info with every bootstrap token
// that may sign. A machine that has only a token can thus verify that the certificate in the
// ConfigMap is the cluster's (kubernetes, pkg/controller/bootstrap, Signer).
package bootstrapsigner

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	bootstrapapi "k8s.io/cluster-bootstrap/token/api"
	bootstrapsecrets "k8s.io/cluster-bootstrap/util/secrets"

	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/libs/informer"
	"github.com/garboard/garboard/libs/informer/reconcile"
	"github.com/garboard/garboard/services/controllers/internal/bootstraptoken"
	"github.com/garboard/garboard/services/controllers/internal/control"
)

const (
	// name is Kubernetes' name for the work queue and its metrics.
	name = "bootstrap_signer_queue"
	// configMap holds the signed content under contentKey, and each signature under signaturePrefix
	// plus the token's ID.
	configMap       = bootstrapapi.ConfigMapClusterInfo
	contentKey      = bootstrapapi.KubeConfigKey
	signaturePrefix = bootstrapapi.JWSSignatureKeyPrefix
)

// Controller is the bootstrap signer.
type Controller struct {
	cfg        control.Config
	secrets    informer.SharedInformer[*corev1.Secret]
	configMaps informer.SharedInformer[*corev1.ConfigMap]
}

// New returns the controller and requests its informers.
func New(cfg control.Config) (*Controller, error) {
	return &Controller{
		cfg: cfg, secrets: bootstraptoken.Informer(cfg.Informers), configMaps: informer.For[*corev1.ConfigMap](cfg.Informers),
	}, nil
}

// Run reconciles until ctx ends. It may be called again after it has returned.
func (c *Controller) Run(ctx context.Context) error {
	var handlers control.Handlers
	queue := reconcile.New(reconcile.Config[string]{
		Name: name, Workers: 1, Resource: "configmaps",
		Reconcile: func(ctx context.Context, key string) (reconcile.Result, error) {
			return control.Requeue(c.reconcile(ctx, key))
		},
		WaitFor: handlers.Checkers, Reads: &handlers.Reads,
		Logger: c.cfg.Logger, Registerer: c.cfg.Registerer, Trace: c.cfg.Trace,
	})
	err := control.Handle(&handlers, c.configMaps, informer.FilteringResourceEventHandler[*corev1.ConfigMap]{
		FilterFunc: func(m *corev1.ConfigMap) bool { return m.Namespace == metav1.NamespacePublic && m.Name == configMap },
		Handler:    reconcile.EnqueueObject[*corev1.ConfigMap](queue.Enqueue),
	})
	if err == nil {
		enqueue := func(string) { queue.Enqueue(informer.KeyOf(metav1.NamespacePublic, configMap)) }
		err = control.Handle(&handlers, c.secrets, informer.FilteringResourceEventHandler[*corev1.Secret]{
			FilterFunc: bootstraptoken.Is,
			Handler:    reconcile.EnqueueObject[*corev1.Secret](enqueue),
		})
	}
	if err == nil {
		err = queue.Run(ctx)
	}
	return handlers.Remove(err)
}

func (c *Controller) reconcile(ctx context.Context, key string) (reconcile.Result, error) {
	current, found := c.configMaps.Indexer().GetByKey(key)
	if !found {
		return reconcile.Result{}, nil
	}
	content, found := current.Data[contentKey]
	if !found {
		return reconcile.Result{}, nil
	}
	next := current.DeepCopy()
	maps.DeleteFunc(next.Data, func(key, _ string) bool { return strings.HasPrefix(key, signaturePrefix) })
	var expires time.Duration
	now := time.Now()
	for _, secret := range c.secrets.Indexer().List() {
		if !bootstraptoken.Is(secret) {
			continue
		}
		id, token, ok := bootstraptoken.ForSigning(secret, now)
		if !ok {
			continue
		}
		signature, err := sign(content, id, token)
		if err != nil {
			return reconcile.Result{}, err
		}
		next.Data[signaturePrefix+id] = signature
		if left, _ := bootstrapsecrets.GetExpiration(secret, now); left > 0 && (expires == 0 || left < expires) {
			expires = left
		}
	}
	// An expired token's signature must go even if no client deletes the token.
	after := reconcile.Result{RequeueAfter: expires}
	if equality.Semantic.DeepEqual(current.Data, next.Data) {
		return after, nil
	}
	_, err := client.Of[*corev1.ConfigMap](c.cfg.Client).Update(ctx, next, metav1.UpdateOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return reconcile.Result{}, fmt.Errorf("signing ConfigMap %s: %w", key, err)
	}
	return after, nil
}

// sign returns a JWS of content with a detached payload (RFC 7515, appendix F). The verifier
// recomputes the signature and compares, so every byte counts. (k8s.io/cluster-bootstrap/token/jws
// signs with an obsolete go-jose, whose successors refuse keys as short as a token.)
func sign(content, id, token string) (string, error) {
	header, err := json.Marshal(struct {
		Algorithm string `json:"alg"`
		KeyID     string `json:"kid"`
	}{"HS256", id})
	if err != nil {
		return "", fmt.Errorf("encoding the header of a signature: %w", err)
	}
	encode := base64.RawURLEncoding.EncodeToString
	mac := hmac.New(sha256.New, []byte(token))
	mac.Write([]byte(encode(header) + "." + encode([]byte(content))))
	return encode(header) + ".." + encode(mac.Sum(nil)), nil
}
