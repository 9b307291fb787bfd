// Package servingtrustbundle publishes the certificate of the apiserver's authority as the ClusterTrustBundle
// of the signer kubernetes.io/kube-apiserver-serving (kubernetes,
// pkg/controller/certificates/clustertrustbundlepublisher).
package servingtrustbundle

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/libs/informer/reconcile"
	"github.com/garboard/garboard/services/controllers/internal/controller"
)

const (
	name = "kube-apiserver-serving-clustertrustbundle-publisher-controller"
	// queue is Kubernetes' name for the work queue and its metrics.
	queue  = "ca_cert_publisher_cluster_trust_bundles"
	signer = "kubernetes.io/kube-apiserver-serving"
)

// bundle abbreviates the type's long name.
type bundle = certificatesv1.ClusterTrustBundle

// reconciler reconciles the signer's bundles.
type reconciler struct {
	ca      string
	bundles *controller.Objects[*bundle]
}

// New declares the controller that publishes ca, PEM certificates. The signer has one bundle, and those
// with other certificates are deleted.
func New(d controller.Deps, ca []byte) (*controller.Spec, error) {
	if len(ca) == 0 {
		return nil, errors.New("creating the " + name + ": there is no certificate to publish")
	}
	r := &reconciler{ca: string(ca), bundles: controller.For[*bundle](d)}
	// All changes ask for the same key, that of the bundle that is to be.
	key := controller.Key{Name: nameOf(ca)}
	r.bundles.Handle = func(q controller.Queue, old, now *bundle) {
		if old != nil && old.Spec.SignerName == signer || now != nil && now.Spec.SignerName == signer {
			q.AddKey(key)
		}
	}
	return &controller.Spec{
		Name: name, Queue: queue, Resource: "clustertrustbundles", For: r.bundles,
		Begin: func(q controller.Queue) { q.AddKey(key) },
		Reconcile: func(ctx context.Context, key controller.Key) (reconcile.Result, error) {
			return reconcile.Result{}, r.reconcile(ctx, key)
		},
	}, nil
}

// nameOf returns the name of the signer's bundle with the given certificates.
func nameOf(ca []byte) string {
	digest := sha256.Sum256(ca)
	return fmt.Sprintf("%s:%x", strings.ReplaceAll(signer, "/", ":"), digest[:12])
}

func (r *reconciler) reconcile(ctx context.Context, key controller.Key) error {
	if err := r.publish(ctx, key); err != nil {
		return err
	}
	var faults []error
	for _, other := range r.bundles.In("") {
		if other.Spec.SignerName != signer || other.Name == key.Name {
			continue
		}
		if err := r.bundles.Client.Delete(ctx, "", other.Name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			faults = append(faults, fmt.Errorf("deleting the outdated ClusterTrustBundle %s: %w", other.Name, err))
		}
	}
	return errors.Join(faults...)
}

func (r *reconciler) publish(ctx context.Context, key controller.Key) error {
	current, found := r.bundles.Get(key)
	switch {
	case !found:
		_, err := r.bundles.Client.Create(ctx, &bundle{
			ObjectMeta: metav1.ObjectMeta{Name: key.Name},
			Spec:       certificatesv1.ClusterTrustBundleSpec{SignerName: signer, TrustBundle: r.ca},
		}, metav1.CreateOptions{})
		if err != nil {
			return fmt.Errorf("creating ClusterTrustBundle %s: %w", key, err)
		}
	case current.Spec.TrustBundle != r.ca:
		next := current.DeepCopy()
		next.Spec.TrustBundle = r.ca
		if _, err := r.bundles.Client.Update(ctx, next, metav1.UpdateOptions{}); err != nil {
			return fmt.Errorf("updating ClusterTrustBundle %s: %w", key, err)
		}
	}
	return nil
}
