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

	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/libs/informer"
	"github.com/garboard/garboard/libs/informer/reconcile"
	"github.com/garboard/garboard/services/controllers/internal/control"
)

const (
	// name is Kubernetes' name for the work queue and its metrics.
	name           = "ClusterRoleAggregator"
	fieldManager   = "clusterrole-aggregation-controller"
	defaultWorkers = 5
)

// Controller is the aggregation controller.
type Controller struct {
	cfg    control.Config
	roles  informer.SharedInformer[*rbacv1.ClusterRole]
	client client.Resource[*rbacv1.ClusterRole]
}

// New returns the controller and requests its informer.
func New(cfg control.Config) (*Controller, error) {
	return &Controller{
		cfg: cfg, roles: informer.For[*rbacv1.ClusterRole](cfg.Informers), client: client.Of[*rbacv1.ClusterRole](cfg.Client),
	}, nil
}

// Run reconciles until ctx ends. It may be called again after it has returned.
func (c *Controller) Run(ctx context.Context) error {
	var handlers control.Handlers
	queue := reconcile.New(reconcile.Config[string]{
		Name: name, Workers: c.cfg.WorkersOr(defaultWorkers), Resource: "clusterroles",
		Reconcile: func(ctx context.Context, key string) (reconcile.Result, error) {
			return control.Requeue(reconcile.Result{}, c.reconcile(ctx, key))
		},
		WaitFor: handlers.Checkers, Reads: &handlers.Reads,
		Logger: c.cfg.Logger, Registerer: c.cfg.Registerer, Trace: c.cfg.Trace,
	})
	// Only the selectors tell which roles a change concerns, and aggregated roles may be aggregated
	// again. There are few, so every one is enqueued.
	enqueueAll := func() {
		for _, role := range c.roles.Indexer().List() {
			if role.AggregationRule != nil {
				queue.Enqueue(role.Name)
			}
		}
	}
	err := control.Handle(&handlers, c.roles, informer.ResourceEventHandlerFuncs[*rbacv1.ClusterRole]{
		AddFunc:    func(*rbacv1.ClusterRole, bool) { enqueueAll() },
		UpdateFunc: func(_, _ *rbacv1.ClusterRole) { enqueueAll() },
		DeleteFunc: func(informer.DeletedObject[*rbacv1.ClusterRole]) { enqueueAll() },
	})
	if err == nil {
		err = queue.Run(ctx)
	}
	return handlers.Remove(err)
}

func (c *Controller) reconcile(ctx context.Context, key string) error {
	role, found := c.roles.Indexer().GetByKey(key)
	if !found || role.AggregationRule == nil || role.DeletionTimestamp != nil {
		return nil
	}
	rules, err := aggregate(role, c.roles.Lister())
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
	if _, err := c.client.Update(ctx, next, metav1.UpdateOptions{FieldManager: fieldManager}); err != nil && !apierrors.IsNotFound(err) {
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
