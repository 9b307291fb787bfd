// Package bootstraproles defines the roles and bindings that every plane has, those of Kubernetes
// v1.37 with its default features, and writes them to the registry when an apiserver starts.
//
// There are additions. Our controllers share the credential of system:kube-controller-manager, so
// that user is bound to the role of each controller. Kubernetes' documentation demands this of
// planes whose controllers have no service accounts of their own. And controllers that Kubernetes lacks
// have roles, as have the readers of metrics.k8s.io, which Kubernetes leaves to metrics-server. The network
// parts of node agents have a binding (Own).
package bootstraproles

import (
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/libs/nodeapi"
	"github.com/garboard/garboard/services/apiserver/internal/http/authn"
)

// Users of the plane's own components.
const (
	controllerManager = "system:kube-controller-manager"
	scheduler         = "system:kube-scheduler"
	proxy             = "system:kube-proxy"
)

const controllerPrefix = "system:controller:"

// Policy is a set of roles and bindings.
type Policy struct {
	ClusterRoles        []*rbacv1.ClusterRole
	ClusterRoleBindings []*rbacv1.ClusterRoleBinding
	Roles               []*rbacv1.Role
	RoleBindings        []*rbacv1.RoleBinding
}

// Default returns the policy that every plane has.
func Default() Policy {
	p := Policy{
		ClusterRoles:        slices.Concat(forUsers(), forParts(), []*rbacv1.ClusterRole{forMetrics(), forTunnels()}),
		ClusterRoleBindings: bindings(),
	}
	for _, role := range forControllers() {
		p.ClusterRoles = append(p.ClusterRoles, role)
		p.ClusterRoleBindings = append(p.ClusterRoleBindings, bind(role.Name,
			account(strings.TrimPrefix(role.Name, controllerPrefix)), user(controllerManager)))
	}
	p.Roles, p.RoleBindings = namespaced()
	return p
}

// Own returns the names of the cluster roles, and of their bindings, that Kubernetes lacks.
func Own() []string {
	names := []string{forMetrics().Name, forNetwork().Name, forTunnels().Name}
	for _, role := range forOwn() {
		names = append(names, role.Name)
	}
	return names
}

// SharedByControllers returns the bindings, as namespace/name, to which the user of our controllers is
// added. They have no other difference from Kubernetes' bindings.
func SharedByControllers() []string {
	names := []string{system + "/" + signerRole, system + "/" + cleanerRole, public + "/" + signerRole}
	for _, role := range forControllers() {
		names = append(names, "/"+role.Name)
	}
	return names
}

// can returns a rule. verbs and groups are separated by spaces; "core" is the group without a name.
func can(verbs, groups string, resources ...string) rbacv1.PolicyRule {
	rule := rbacv1.PolicyRule{Verbs: strings.Fields(verbs), APIGroups: strings.Fields(groups), Resources: slices.Clone(resources)}
	for i, group := range rule.APIGroups {
		if group == "core" {
			rule.APIGroups[i] = ""
		}
	}
	slices.Sort(rule.Verbs)
	slices.Sort(rule.APIGroups)
	slices.Sort(rule.Resources)
	return rule
}

// canOn is can for objects with the given names only.
func canOn(verbs, group, resource string, names ...string) rbacv1.PolicyRule {
	rule := can(verbs, group, resource)
	rule.ResourceNames = slices.Sorted(slices.Values(names))
	return rule
}

// canReach returns a rule to get paths.
func canReach(paths ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{Verbs: []string{"get"}, NonResourceURLs: slices.Sorted(slices.Values(paths))}
}

// Verbs that go together.
const (
	read      = "get list watch"
	write     = "create update patch delete deletecollection"
	readWrite = read + " " + write
)

// recordEvents returns the rule of programs that record events.
func recordEvents() rbacv1.PolicyRule {
	return can("create update patch", "core events.k8s.io", "events")
}

// meta returns the metadata of an object in the policy.
func meta(namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: namespace, Name: name,
		Labels:      map[string]string{"kubernetes.io/bootstrapping": "rbac-defaults"},
		Annotations: map[string]string{rbacv1.AutoUpdateAnnotationKey: "true"},
	}
}

func clusterRole(name string, rules ...rbacv1.PolicyRule) *rbacv1.ClusterRole {
	return &rbacv1.ClusterRole{ObjectMeta: meta("", name), Rules: rules}
}

// aggregate marks a role to be aggregated into another one: admin, edit or view.
func aggregate(role *rbacv1.ClusterRole, into string) *rbacv1.ClusterRole {
	role.Labels[aggregation(into)] = "true"
	return role
}

// aggregated returns a role that is aggregated from others.
func aggregated(name string) *rbacv1.ClusterRole {
	role := clusterRole(name)
	role.AggregationRule = &rbacv1.AggregationRule{
		ClusterRoleSelectors: []metav1.LabelSelector{{MatchLabels: map[string]string{aggregation(name): "true"}}},
	}
	return role
}

func aggregation(into string) string { return rbacv1.GroupName + "/aggregate-to-" + into }

// bind binds subjects to the ClusterRole of the same name.
func bind(name string, subjects ...rbacv1.Subject) *rbacv1.ClusterRoleBinding {
	return &rbacv1.ClusterRoleBinding{
		ObjectMeta: meta("", name), Subjects: subjects,
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
	}
}

func user(name string) rbacv1.Subject {
	return rbacv1.Subject{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: name}
}

func group(name string) rbacv1.Subject {
	return rbacv1.Subject{Kind: rbacv1.GroupKind, APIGroup: rbacv1.GroupName, Name: name}
}

// account returns a service account in the system's namespace.
func account(name string) rbacv1.Subject {
	return rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: system, Name: name}
}

// forNetwork returns the binding of the account as which the network parts of node agents read the plane.
func forNetwork() *rbacv1.ClusterRoleBinding {
	binding := bind("system:node-proxier", account(nodeapi.NetworkAccount))
	binding.Name = "system:garboard:node-network"
	return binding
}

// forTunnels returns the role by which node agents bring their pods to the API over the bus.
func forTunnels() *rbacv1.ClusterRole {
	return clusterRole("system:garboard:api-tunnel", canReach(nodeapi.TunnelPath))
}

// bindings returns the bindings of the roles that are not a controller's. Nodes are not bound: the
// node authorizer allows them access to their own objects, which a role cannot express.
func bindings() []*rbacv1.ClusterRoleBinding {
	return []*rbacv1.ClusterRoleBinding{
		bind("cluster-admin", group(authn.GroupMasters)),
		bind("system:monitoring", group("system:monitoring")),
		bind("system:discovery", group(authn.GroupAuthenticated)),
		bind("system:basic-user", group(authn.GroupAuthenticated)),
		bind("system:public-info-viewer", group(authn.GroupAuthenticated), group(authn.GroupUnauthenticated)),
		bind("system:node-proxier", user(proxy)),
		bind("system:kube-controller-manager", user(controllerManager)),
		bind("system:kube-dns", account("kube-dns")),
		bind("system:kube-scheduler", user(scheduler)),
		bind("system:volume-scheduler", user(scheduler)),
		bind("system:service-account-issuer-discovery", group(authn.GroupServiceAccounts)),
		bind("system:cluster-trust-bundle-discovery", group(authn.GroupServiceAccounts)),
		bind("system:node"),
		forNetwork(),
		bind(forTunnels().Name, account(nodeapi.NetworkAccount)),
	}
}
