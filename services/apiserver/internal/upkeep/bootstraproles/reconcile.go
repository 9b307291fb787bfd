package bootstraproles

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"

	"golang.org/x/sync/errgroup"
	rbacv1 "k8s.io/api/rbac/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	rbacvalidation "k8s.io/component-helpers/auth/rbac/validation"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/registry"
)

// atOnce is how many objects are written concurrently.
const atOnce = 8

// attempts is how often an object is tried that other writers create and delete meanwhile.
const attempts = 4

// Config is where the policy is written.
type Config struct {
	Table    *scheme.Table
	Registry *registry.Registry
	Logger   *slog.Logger
}

// Reconcile creates the missing objects of a policy, and adds the missing rules, subjects, labels
// and annotations to existing ones. It removes nothing except the aggregation rule of a role that
// should have none. It replaces a binding to another role, since a binding's role cannot change. It
// leaves alone the objects with the annotation rbac.authorization.kubernetes.io/autoupdate:
// "false". Any number of apiservers may call it at any time.
func Reconcile(ctx context.Context, cfg Config, policy Policy) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	for _, wanted := range policy.ClusterRoles {
		group.Go(func() error { return reconcile(ctx, cfg, wanted, mergeClusterRole) })
	}
	for _, wanted := range policy.Roles {
		group.Go(func() error { return reconcile(ctx, cfg, wanted, mergeRole) })
	}
	for _, wanted := range policy.ClusterRoleBindings {
		group.Go(func() error { return reconcile(ctx, cfg, wanted, mergeClusterRoleBinding) })
	}
	for _, wanted := range policy.RoleBindings {
		group.Go(func() error { return reconcile(ctx, cfg, wanted, mergeRoleBinding) })
	}
	if err := group.Wait(); err != nil {
		return fmt.Errorf("writing the bootstrap roles: %w", err)
	}
	return nil
}

// merge adds to have, which is its own copy, what is missing of wanted. It returns false if wanted
// must replace have.
type merge[T scheme.Object] func(have, wanted T) bool

func reconcile[T scheme.Object](ctx context.Context, cfg Config, wanted T, merge merge[T]) error {
	kind := scheme.For[T](cfg.Table)
	resource := cfg.Registry.Resource(kind)
	var err error
	for range attempts {
		if err = reconcileOnce(ctx, resource, wanted, merge, cfg.Logger); !apierrors.IsNotFound(err) && !apierrors.IsAlreadyExists(err) {
			break
		}
	}
	if err != nil {
		return fmt.Errorf("%s %s: %w", kind.Kind, wanted.GetName(), err)
	}
	return nil
}

func reconcileOnce[T scheme.Object](ctx context.Context, resource *registry.Resource, wanted T, merge merge[T], log *slog.Logger) error {
	namespace, name := wanted.GetNamespace(), wanted.GetName()
	who := resource.Kind().Kind
	current, err := resource.Get(ctx, namespace, name)
	if apierrors.IsNotFound(err) {
		_, err = resource.Create(ctx, namespace, copyOf(wanted), metav1.CreateOptions{})
		return err
	}
	if err != nil {
		return err
	}
	have, ok := current.(T)
	if !ok {
		return fmt.Errorf("the registry returned a %T", current)
	}
	merged := copyOf(have)
	fits := merge(merged, wanted)
	switch {
	case fits && apiequality.Semantic.DeepEqual(merged, have):
		return nil
	case have.GetAnnotations()[rbacv1.AutoUpdateAnnotationKey] == "false":
		log.WarnContext(ctx, "a bootstrap object differs and is left alone", "kind", who, "namespace", namespace, "name", name)
		return nil
	case !fits:
		uid := have.GetUID()
		_, _, err := resource.Delete(ctx, namespace, name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}})
		if err != nil && !apierrors.IsConflict(err) {
			return err
		}
		_, err = resource.Create(ctx, namespace, copyOf(wanted), metav1.CreateOptions{})
		return err
	}
	_, err = resource.Update(ctx, namespace, name, func(current scheme.Object) (scheme.Object, error) {
		have, ok := current.(T)
		if !ok {
			return nil, fmt.Errorf("the registry returned a %T", current)
		}
		if have.GetAnnotations()[rbacv1.AutoUpdateAnnotationKey] == "false" {
			return current, nil
		}
		merged := copyOf(have)
		merge(merged, wanted)
		return merged, nil
	}, registry.UpdateOptions{})
	if err == nil {
		log.InfoContext(ctx, "completed a bootstrap object", "kind", who, "namespace", namespace, "name", name)
	}
	return err
}

func copyOf[T scheme.Object](obj T) T {
	copied, ok := obj.DeepCopyObject().(T)
	if !ok {
		return obj // Unreachable: a deep copy has its original's type.
	}
	return copied
}

// mergeMeta adds missing labels and annotations; existing values stay.
func mergeMeta(have, wanted metav1.Object) {
	have.SetLabels(union(wanted.GetLabels(), have.GetLabels()))
	have.SetAnnotations(union(wanted.GetAnnotations(), have.GetAnnotations()))
}

func union(wanted, have map[string]string) map[string]string {
	all := maps.Clone(wanted)
	if all == nil {
		return have
	}
	maps.Copy(all, have)
	return all
}

func mergeClusterRole(have, wanted *rbacv1.ClusterRole) bool {
	mergeMeta(have, wanted)
	_, missing := rbacvalidation.Covers(have.Rules, wanted.Rules)
	have.Rules = append(have.Rules, missing...)
	switch {
	case wanted.AggregationRule == nil:
		have.AggregationRule = nil
	case have.AggregationRule == nil:
		have.AggregationRule = wanted.AggregationRule.DeepCopy()
	default:
		for _, selector := range wanted.AggregationRule.ClusterRoleSelectors {
			if !slices.ContainsFunc(have.AggregationRule.ClusterRoleSelectors, func(h metav1.LabelSelector) bool {
				return apiequality.Semantic.DeepEqual(h, selector)
			}) {
				have.AggregationRule.ClusterRoleSelectors = append(have.AggregationRule.ClusterRoleSelectors, selector)
			}
		}
	}
	return true
}

func mergeRole(have, wanted *rbacv1.Role) bool {
	mergeMeta(have, wanted)
	_, missing := rbacvalidation.Covers(have.Rules, wanted.Rules)
	have.Rules = append(have.Rules, missing...)
	return true
}

func mergeClusterRoleBinding(have, wanted *rbacv1.ClusterRoleBinding) bool {
	mergeMeta(have, wanted)
	have.Subjects = withSubjects(have.Subjects, wanted.Subjects)
	return have.RoleRef == wanted.RoleRef
}

func mergeRoleBinding(have, wanted *rbacv1.RoleBinding) bool {
	mergeMeta(have, wanted)
	have.Subjects = withSubjects(have.Subjects, wanted.Subjects)
	return have.RoleRef == wanted.RoleRef
}

func withSubjects(have, wanted []rbacv1.Subject) []rbacv1.Subject {
	for _, subject := range wanted {
		if !slices.Contains(have, subject) {
			have = append(have, subject)
		}
	}
	return have
}
