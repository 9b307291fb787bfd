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
	"github.com/garboard/garboard/services/controllers/internal/control"
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

// Controller publishes the certificate.
type Controller struct {
	cfg        control.Config
	ca         string
	namespaces informer.SharedInformer[*corev1.Namespace]
	configMaps informer.SharedInformer[*corev1.ConfigMap]
}

// New returns the controller that publishes ca, a PEM certificate, and requests its informers.
func New(cfg control.Config, ca []byte) (*Controller, error) {
	if len(ca) == 0 {
		return nil, errors.New("creating the " + name + ": there is no certificate to publish")
	}
	return &Controller{
		cfg: cfg, ca: string(ca),
		namespaces: informer.For[*corev1.Namespace](cfg.Informers),
		configMaps: informer.For[*corev1.ConfigMap](cfg.Informers),
	}, nil
}

// Run reconciles until ctx ends. It may be called again after it has returned.
func (c *Controller) Run(ctx context.Context) error {
	var handlers control.Handlers
	queue := reconcile.New(reconcile.Config[string]{
		Name: name, Workers: c.cfg.WorkersOr(1), Resource: "namespaces",
		Reconcile: func(ctx context.Context, key string) (reconcile.Result, error) {
			return control.Requeue(reconcile.Result{}, c.reconcile(ctx, key))
		},
		Priority: true, WaitFor: handlers.Checkers, Reads: &handlers.Reads,
		Logger: c.cfg.Logger, Registerer: c.cfg.Registerer, Trace: c.cfg.Trace,
	})
	ours := func(m *corev1.ConfigMap) {
		if m != nil && m.Name == configMap {
			queue.Enqueue(m.Namespace)
		}
	}
	err := control.Handle(&handlers, c.namespaces, reconcile.ByPriority(queue,
		func(enqueue func(string)) informer.ResourceEventHandler[*corev1.Namespace] {
			return reconcile.EnqueueObject[*corev1.Namespace](enqueue)
		}))
	if err == nil {
		err = control.Handle(&handlers, c.configMaps, informer.ResourceEventHandlerFuncs[*corev1.ConfigMap]{
			UpdateFunc: func(_, m *corev1.ConfigMap) { ours(m) },
			DeleteFunc: func(gone informer.DeletedObject[*corev1.ConfigMap]) { ours(gone.OptionalObj) },
		})
	}
	if err == nil {
		err = queue.Run(ctx)
	}
	return handlers.Remove(err)
}

func (c *Controller) reconcile(ctx context.Context, namespaceName string) error {
	namespace, found := c.namespaces.Indexer().GetByKey(namespaceName)
	if !found || namespace.DeletionTimestamp != nil || namespace.Status.Phase == corev1.NamespaceTerminating {
		return nil
	}
	configMaps := client.Of[*corev1.ConfigMap](c.cfg.Client)
	current, found := c.configMaps.Indexer().GetByKey(informer.KeyOf(namespaceName, configMap))
	if !found {
		_, err := configMaps.Create(ctx, &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: namespaceName, Name: configMap, Annotations: map[string]string{descriptionAnnotation: description},
			},
			Data: map[string]string{key: c.ca},
		}, metav1.CreateOptions{})
		if err == nil || apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err) ||
			apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
			return nil
		}
		return fmt.Errorf("creating ConfigMap %s/%s: %w", namespaceName, configMap, err)
	}
	wanted := map[string]string{key: c.ca}
	if maps.Equal(current.Data, wanted) && current.Annotations[descriptionAnnotation] != "" {
		return nil
	}
	next := current.DeepCopy()
	next.Data = wanted
	metav1.SetMetaDataAnnotation(&next.ObjectMeta, descriptionAnnotation, description)
	if _, err := configMaps.Update(ctx, next, metav1.UpdateOptions{}); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("updating ConfigMap %s/%s: %w", namespaceName, configMap, err)
	}
	return nil
}
