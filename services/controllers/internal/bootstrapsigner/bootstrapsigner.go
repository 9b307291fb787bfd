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

	"github.com/garboard/garboard/libs/informer"
	"github.com/garboard/garboard/libs/informer/reconcile"
	"github.com/garboard/garboard/services/controllers/internal/bootstraptoken"
	"github.com/garboard/garboard/services/controllers/internal/controller"
)

const (
	name = "bootstrap-signer-controller"
	// queue is Kubernetes' name for the work queue and its metrics.
	queue = "bootstrap_signer_queue"
	// configMap holds the signed content under contentKey, and each signature under signaturePrefix
	// plus the token's ID.
	configMap       = bootstrapapi.ConfigMapClusterInfo
	contentKey      = bootstrapapi.KubeConfigKey
	signaturePrefix = bootstrapapi.JWSSignatureKeyPrefix
)

// reconciler reconciles the one ConfigMap.
type reconciler struct {
	secrets    informer.SharedInformer[*corev1.Secret]
	configMaps *controller.Objects[*corev1.ConfigMap]
}

// New declares the bootstrap signer.
func New(d controller.Deps) *controller.Spec {
	r := &reconciler{
		secrets:    informer.ForView[*corev1.Secret](d.Informers, bootstraptoken.View()),
		configMaps: controller.For[*corev1.ConfigMap](d),
	}
	r.configMaps.Handle = configMapChanged
	tokens := bootstraptoken.Each(func(q controller.Queue, _ metav1.Object) { q.AddName(metav1.NamespacePublic, configMap) })
	return &controller.Spec{
		Name: name, Queue: queue, Resource: "configmaps", Unhurried: true,
		For: r.configMaps, Watches: []controller.Watch{controller.On(r.secrets, tokens)}, Reconcile: r.reconcile,
	}
}

// configMapChanged asks for a reconcile of the one ConfigMap that is signed.
func configMapChanged(q controller.Queue, _, now *corev1.ConfigMap) {
	if now != nil && now.Namespace == metav1.NamespacePublic && now.Name == configMap {
		q.Add(now)
	}
}

func (r *reconciler) reconcile(ctx context.Context, key controller.Key) (reconcile.Result, error) {
	current, found := r.configMaps.Get(key)
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
	for _, secret := range r.secrets.Indexer().List() {
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
	_, err := r.configMaps.Client.Update(ctx, next, metav1.UpdateOptions{})
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
