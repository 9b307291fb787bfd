package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	v1 "github.com/garboard/garboard/test/operators/siteoperator/v1"
)

// image serves the page.
const image = "nginx:1.14.2"

// reconciler makes a Deployment and a ConfigMap of each site, and registers its hosts in a folder, as
// an operator registers something outside the cluster.
type reconciler struct {
	client   client.Client
	registry string
}

// Reconcile brings a site into the state that its spec wants.
func (r *reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	site := &v1.Site{}
	if err := r.client.Get(ctx, request.NamespacedName, site); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	entry := filepath.Join(r.registry, site.Namespace+"_"+site.Name)
	before := site.DeepCopy()
	if site.DeletionTimestamp != nil {
		if !controllerutil.RemoveFinalizer(site, v1.Finalizer) {
			return ctrl.Result{}, nil
		}
		if err := os.RemoveAll(entry); err != nil {
			return ctrl.Result{}, fmt.Errorf("removing the hosts from the registry: %w", err)
		}
		return ctrl.Result{}, client.IgnoreNotFound(r.client.Patch(ctx, site, client.MergeFrom(before)))
	}
	if controllerutil.AddFinalizer(site, v1.Finalizer) {
		return ctrl.Result{}, r.client.Patch(ctx, site, client.MergeFrom(before))
	}
	if err := os.WriteFile(entry, []byte(strings.Join(site.Spec.Hosts, "\n")), 0o600); err != nil {
		return ctrl.Result{}, fmt.Errorf("registering the hosts: %w", err)
	}
	deployment, err := r.children(ctx, site)
	if err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{}, r.report(ctx, site, deployment)
}

// children creates or updates what a site owns, and returns its Deployment.
func (r *reconciler) children(ctx context.Context, site *v1.Site) (*appsv1.Deployment, error) {
	of := metav1.ObjectMeta{Namespace: site.Namespace, Name: site.Name}
	page := &corev1.ConfigMap{ObjectMeta: of}
	if _, err := controllerutil.CreateOrPatch(ctx, r.client, page, func() error {
		page.Data = map[string]string{"index.html": site.Spec.Page}
		return controllerutil.SetControllerReference(site, page, r.client.Scheme())
	}); err != nil {
		return nil, fmt.Errorf("making the page: %w", err)
	}
	deployment := &appsv1.Deployment{ObjectMeta: of}
	if _, err := controllerutil.CreateOrPatch(ctx, r.client, deployment, func() error {
		labels := map[string]string{"site": site.Name}
		spec := &deployment.Spec
		spec.Replicas, spec.Selector = site.Spec.Replicas, &metav1.LabelSelector{MatchLabels: labels}
		spec.Template.Labels = labels
		if len(spec.Template.Spec.Containers) == 0 {
			spec.Template.Spec.Containers = []corev1.Container{{Name: "server"}}
		}
		spec.Template.Spec.Containers[0].Image = image
		return controllerutil.SetControllerReference(site, deployment, r.client.Scheme())
	}); err != nil {
		return nil, fmt.Errorf("making the deployment: %w", err)
	}
	return deployment, nil
}

// report writes the site's status.
func (r *reconciler) report(ctx context.Context, site *v1.Site, deployment *appsv1.Deployment) error {
	before := site.DeepCopy()
	wanted := int32(1)
	if site.Spec.Replicas != nil {
		wanted = *site.Spec.Replicas
	}
	ready := deployment.Status.ReadyReplicas
	site.Status.ObservedGeneration, site.Status.Replicas, site.Status.Selector = site.Generation, ready, "site="+site.Name
	condition := metav1.Condition{
		Type: v1.ReadyCondition, Status: metav1.ConditionFalse, Reason: "Starting",
		Message: fmt.Sprintf("%d of %d servers are ready", ready, wanted), ObservedGeneration: site.Generation,
	}
	if ready >= wanted {
		condition.Status, condition.Reason = metav1.ConditionTrue, "Served"
	}
	meta.SetStatusCondition(&site.Status.Conditions, condition)
	if err := client.IgnoreNotFound(r.client.Status().Patch(ctx, site, client.MergeFrom(before))); err != nil {
		return fmt.Errorf("writing the status: %w", err)
	}
	return nil
}
