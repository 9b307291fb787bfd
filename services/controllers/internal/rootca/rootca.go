// Package rootca keeps a ConfigMap with the certificate of the apiserver's authority in every
// namespace, with which pods verify the apiserver (kubernetes,
// pkg/controller/certificates/rootcacertpublisher).
package rootca

import (
	"context"
	"errors"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/libs/informer"
	"github.com/garboard/garboard/libs/informer/reconcile"
	"github.com/garboard/garboard/services/controllers/internal/controller"
)

const (
	name = "root-ca-certificate-publisher-controller"
	// configMap is the name of the ConfigMap and key the key of the certificate in it; projected
	// token volumes name both.
	configMap = "kube-root-ca.crt"
	key       = "ca.crt"

	descriptionAnnotation = "kubernetes.io/description"
	description           = "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as the internal service IP or kubernetes.default.svc. No other usage is guaranteed across distributions of Kubernetes clusters."
)

// reconciler reconciles namespaces.
type reconciler struct {
	ca         string
	namespaces *controller.Objects[*corev1.Namespace]
	configMaps informer.SharedInformer[*corev1.ConfigMap]
	client     client.Resource[*corev1.ConfigMap]
}

// New declares the controller that publishes ca, a PEM certificate.
func New(d controller.Deps, ca []byte) (*controller.Spec, error) {
	if len(ca) == 0 {
		return nil, errors.New("creating the " + name + ": there is no certificate to publish")
	}
	r := &reconciler{
		ca: string(ca), namespaces: controller.For[*corev1.Namespace](d),
		configMaps: informer.For[*corev1.ConfigMap](d.Informers), client: client.Of[*corev1.ConfigMap](d.Client),
	}
	return &controller.Spec{
		Name: name, Resource: "namespaces", For: r.namespaces,
		Watches: []controller.Watch{controller.On(r.configMaps, configMapChanged)},
		Reconcile: func(ctx context.Context, key controller.Key) (reconcile.Result, error) {
			return reconcile.Result{}, r.reconcile(ctx, key.Name)
		},
	}, nil
}

// configMapChanged asks for a reconcile of the namespace whose ConfigMap was changed or deleted.
func configMapChanged(q controller.Queue, old, _ *corev1.ConfigMap) {
	if old != nil && old.Name == configMap {
		q.AddName("", old.Namespace)
	}
}

func (r *reconciler) reconcile(ctx context.Context, namespaceName string) error {
	namespace, found := r.namespaces.Indexer().GetByKey(namespaceName)
	if !found || namespace.DeletionTimestamp != nil || namespace.Status.Phase == corev1.NamespaceTerminating {
		return nil
	}
	current, found := r.configMaps.Indexer().GetByKey(informer.KeyOf(namespaceName, configMap))
	if !found {
		_, err := r.client.Create(ctx, &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: namespaceName, Name: configMap, Annotations: map[string]string{descriptionAnnotation: description},
			},
			Data: map[string]string{key: r.ca},
		}, metav1.CreateOptions{})
		if err == nil || apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err) ||
			apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
			return nil
		}
		return fmt.Errorf("creating ConfigMap %s/%s: %w", namespaceName, configMap, err)
	}
	wanted := map[string]string{key: r.ca}
	if maps.Equal(current.Data, wanted) && current.Annotations[descriptionAnnotation] != "" {
		return nil
	}
	next := current.DeepCopy()
	next.Data = wanted
	metav1.SetMetaDataAnnotation(&next.ObjectMeta, descriptionAnnotation, description)
	if _, err := r.client.Update(ctx, next, metav1.UpdateOptions{}); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("updating ConfigMap %s/%s: %w", namespaceName, configMap, err)
	}
	return nil
}
