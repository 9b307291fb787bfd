// Package clusterroleaggregation fills each ClusterRole that has an aggregation rule with the rules
// of the ClusterRoles that it selects (kubernetes, pkg/controller/clusterroleaggregation). The
// roles admin, edit and view get their rules this way.
package clusterroleaggregation

import (
	"context"
	"fmt"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/garboard/garboard/libs/informer"
	"github.com/garboard/garboard/libs/informer/reconcile"
	"github.com/garboard/garboard/services/controllers/internal/controller"
)

const (
	// name is also the manager of the fields that the controller writes.
	name = "clusterrole-aggregation-controller"
	// queue is Kubernetes' name for the work queue and its metrics.
	queue   = "ClusterRoleAggregator"
	workers = 5
)

// reconciler reconciles ClusterRoles.
type reconciler struct {
	roles *controller.Objects[*rbacv1.ClusterRole]
}

// New declares the aggregation controller.
func New(d controller.Deps) *controller.Spec {
	r := &reconciler{roles: controller.For[*rbacv1.ClusterRole](d)}
	r.roles.Handle = r.changed
	return &controller.Spec{
		Name: name, Queue: queue, Resource: "clusterroles", Workers: workers, Unhurried: true, For: r.roles,
		Reconcile: func(ctx context.Context, key controller.Key) (reconcile.Result, error) {
			return reconcile.Result{}, r.reconcile(ctx, key)
		},
	}
}

// changed asks for a reconcile of every aggregated role. Only the selectors tell which of them a change
// concerns, and aggregated roles may be aggregated again; there are few.
func (r *reconciler) changed(q controller.Queue, _, _ *rbacv1.ClusterRole) {
	for _, role := range r.roles.In("") {
		if role.AggregationRule != nil {
			q.Add(role)
		}
	}
}

func (r *reconciler) reconcile(ctx context.Context, key controller.Key) error {
	role, found := r.roles.Get(key)
	if !found || role.AggregationRule == nil || role.DeletionTimestamp != nil {
		return nil
	}
	rules, err := aggregate(role, r.roles.Lister())
	if err != nil {
		return reconcile.TerminalError(fmt.Errorf("reading the aggregation rule of ClusterRole %s: %w", key, err))
	}
	if equality.Semantic.DeepEqual(rules, role.Rules) {
		return nil
	}
	next := role.DeepCopy()
	next.Rules = rules
	// Kubernetes uses server-side apply here. An update carries the resourceVersion, which keeps
	// rules gathered from an older state from overwriting newer ones.
	if _, err := r.roles.Client.Update(ctx, next, metav1.UpdateOptions{FieldManager: name}); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("writing the rules of ClusterRole %s: %w", key, err)
	}
	return nil
}

// aggregate gathers the rules of all roles that role selects: selector by selector, then by role
// name, each rule once.
func aggregate(role *rbacv1.ClusterRole, roles informer.Lister[*rbacv1.ClusterRole]) ([]rbacv1.PolicyRule, error) {
	var rules []rbacv1.PolicyRule
	for i := range role.AggregationRule.ClusterRoleSelectors {
		selector, err := metav1.LabelSelectorAsSelector(&role.AggregationRule.ClusterRoleSelectors[i])
		if err != nil {
			return nil, err
		}
		selected, err := selectRoles(roles, selector)
		if err != nil {
			return nil, err
		}
		for _, each := range selected {
			if each.Name != role.Name {
				rules = union(rules, each.Rules)
			}
		}
	}
	return rules, nil
}

func selectRoles(roles informer.Lister[*rbacv1.ClusterRole], selector labels.Selector) ([]*rbacv1.ClusterRole, error) {
	selected, err := roles.List(selector)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(selected, func(a, b *rbacv1.ClusterRole) int { return strings.Compare(a.Name, b.Name) })
	return selected, nil
}

// union appends copies of the rules in more that rules lacks.
func union(rules, more []rbacv1.PolicyRule) []rbacv1.PolicyRule {
	for i := range more {
		known := slices.ContainsFunc(rules, func(rule rbacv1.PolicyRule) bool {
			return equality.Semantic.DeepEqual(rule, more[i])
		})
		if !known {
			rules = append(rules, *more[i].DeepCopy())
		}
	}
	return rules
}
