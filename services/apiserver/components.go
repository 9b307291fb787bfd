package apiserver

import (
	"context"
	"errors"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/http/rest"
)

// componentPatience is how long etcd may take to say that it is well.
const componentPatience = 5 * time.Second

// observations are how the kinds that are observed come to know what they say.
func (p *plane) observations() map[schema.GroupVersionKind]rest.Observation {
	return map[schema.GroupVersionKind]rest.Observation{
		corev1.SchemeGroupVersion.WithKind("ComponentStatus"): p.components,
	}
}

// components says how the parts of the plane are, under the names that Kubernetes gives them: of
// those that elect a leader, whether there is one who renews its lease; of each etcd cluster,
// whether it answers.
func (p *plane) components(ctx context.Context) []scheme.Object {
	ctx, cancel := context.WithTimeout(ctx, componentPatience)
	defer cancel()
	found := []scheme.Object{component("controller-manager", p.led(ctx, "kube-controller-manager"))}
	for i, cluster := range p.store.Clusters() {
		_, err := cluster.Revision(ctx)
		found = append(found, component(fmt.Sprintf("etcd-%d", i), err))
	}
	return append(found, component("scheduler", p.led(ctx, "kube-scheduler")))
}

// component is healthy unless there is an error.
func component(name string, err error) *corev1.ComponentStatus {
	condition := corev1.ComponentCondition{Type: corev1.ComponentHealthy, Status: corev1.ConditionTrue, Message: "ok"}
	if err != nil {
		condition.Status, condition.Message = corev1.ConditionFalse, err.Error()
	}
	return &corev1.ComponentStatus{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Conditions: []corev1.ComponentCondition{condition},
	}
}

// led says what is wrong with the leadership that a lease stands for.
func (p *plane) led(ctx context.Context, name string) error {
	leases := p.registry.Resource(scheme.For[*coordinationv1.Lease](p.table))
	obj, err := leases.GetAt(ctx, metav1.NamespaceSystem, name, "0")
	if apierrors.IsNotFound(err) {
		return fmt.Errorf("none has ever led: there is no lease %s/%s", metav1.NamespaceSystem, name)
	}
	if err != nil {
		return fmt.Errorf("reading the lease %s/%s: %w", metav1.NamespaceSystem, name, err)
	}
	lease, ok := obj.(*coordinationv1.Lease)
	if !ok || lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity == "" || lease.Spec.RenewTime == nil || lease.Spec.LeaseDurationSeconds == nil {
		return errors.New("none leads")
	}
	if end := lease.Spec.RenewTime.Add(time.Duration(*lease.Spec.LeaseDurationSeconds) * time.Second); time.Now().After(end) {
		return fmt.Errorf("none leads: %s has not renewed the lease since %s", *lease.Spec.HolderIdentity, lease.Spec.RenewTime.UTC().Format(time.RFC3339))
	}
	return nil
}
