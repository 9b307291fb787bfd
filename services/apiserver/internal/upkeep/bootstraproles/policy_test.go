package bootstraproles_test

import (
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/garboard/garboard/libs/fabric"
	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/http/authn"
	"github.com/garboard/garboard/services/apiserver/internal/http/authz"
	"github.com/garboard/garboard/services/apiserver/internal/http/authz/rbac"
	kindsrbac "github.com/garboard/garboard/services/apiserver/internal/kinds/rbac"
	"github.com/garboard/garboard/services/apiserver/internal/storage/feed"
	"github.com/garboard/garboard/services/apiserver/internal/upkeep/bootstraproles"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestNames compares the roles with those of Kubernetes v1.37 with its default features.
func TestNames(t *testing.T) {
	want := strings.Fields(`
		admin cluster-admin edit system:aggregate-to-admin system:aggregate-to-edit system:aggregate-to-view
		system:auth-delegator system:basic-user
		system:certificates.k8s.io:certificatesigningrequests:nodeclient
		system:certificates.k8s.io:certificatesigningrequests:selfnodeclient
		system:certificates.k8s.io:kube-apiserver-client-approver
		system:certificates.k8s.io:kube-apiserver-client-kubelet-approver
		system:certificates.k8s.io:kubelet-serving-approver system:certificates.k8s.io:legacy-unknown-approver
		system:controller:attachdetach-controller system:controller:certificate-controller
		system:controller:clusterrole-aggregation-controller system:controller:cronjob-controller
		system:controller:daemon-set-controller system:controller:deployment-controller
		system:controller:device-taint-eviction-controller system:controller:disruption-controller
		system:controller:endpoint-controller system:controller:endpointslice-controller
		system:controller:endpointslicemirroring-controller system:controller:ephemeral-volume-controller
		system:controller:expand-controller system:controller:generic-garbage-collector
		system:controller:horizontal-pod-autoscaler system:controller:job-controller
		system:controller:kube-apiserver-serving-clustertrustbundle-publisher
		system:controller:legacy-service-account-token-cleaner system:controller:namespace-controller
		system:controller:node-controller system:controller:persistent-volume-binder
		system:controller:pod-garbage-collector system:controller:podcertificaterequestcleaner
		system:controller:storage-version-migrator-controller system:controller:pv-protection-controller
		system:controller:pvc-protection-controller system:controller:replicaset-controller
		system:controller:replication-controller system:controller:resource-claim-controller
		system:controller:resourcequota-controller system:controller:root-ca-cert-publisher
		system:controller:route-controller system:controller:selinux-warning-controller
		system:controller:service-account-controller system:controller:service-cidrs-controller
		system:controller:service-controller system:controller:statefulset-controller
		system:controller:ttl-after-finished-controller system:controller:ttl-controller
		system:controller:validatingadmissionpolicy-status-controller
		system:controller:volumeattributesclass-protection-controller
		system:cluster-trust-bundle-discovery system:discovery system:heapster system:kube-aggregator system:kube-controller-manager system:kube-dns
		system:kube-scheduler system:kubelet-api-admin system:monitoring system:node system:node-bootstrapper
		system:node-problem-detector system:node-proxier system:persistent-volume-provisioner system:public-info-viewer
		system:service-account-issuer-discovery system:volume-scheduler view`)
	var got []string
	for _, role := range bootstraproles.Default().ClusterRoles {
		got = append(got, role.Name)
	}
	want = append(want, "system:controller:local-path-provisioner", "system:garboard:aggregated-metrics-reader", "system:garboard:api-tunnel") // those that Kubernetes lacks
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}

// TestValid: the API would accept every object, each is marked as in Kubernetes, and every
// binding's role exists.
func TestValid(t *testing.T) {
	policy := bootstraproles.Default()
	known := map[string]bool{}
	marked := func(obj scheme.Object) {
		if obj.GetLabels()["kubernetes.io/bootstrapping"] != "rbac-defaults" || obj.GetAnnotations()[rbacv1.AutoUpdateAnnotationKey] != "true" {
			t.Errorf("%T %s is not marked as a bootstrap object", obj, obj.GetName())
		}
		name := obj.GetNamespace() + "/" + obj.GetName()
		if _, isRole := obj.(*rbacv1.Role); isRole || strings.HasPrefix(name, "/") {
			if _, isBinding := obj.(*rbacv1.ClusterRoleBinding); !isBinding {
				if known[name] {
					t.Errorf("%s is defined twice", name)
				}
				known[name] = true
			}
		}
	}
	for _, role := range policy.ClusterRoles {
		marked(role)
		if errs := kindsrbac.ValidateClusterRole(role); len(errs) > 0 {
			t.Errorf("%s: %v", role.Name, errs)
		}
	}
	for _, role := range policy.Roles {
		marked(role)
		if errs := kindsrbac.ValidateRole(role); len(errs) > 0 {
			t.Errorf("%s: %v", role.Name, errs)
		}
	}
	for _, binding := range policy.ClusterRoleBindings {
		marked(binding)
		if errs := kindsrbac.ValidateClusterRoleBinding(binding); len(errs) > 0 || !known["/"+binding.RoleRef.Name] {
			t.Errorf("%s: %v", binding.Name, errs)
		}
	}
	for _, binding := range policy.RoleBindings {
		marked(binding)
		if errs := kindsrbac.ValidateRoleBinding(binding); len(errs) > 0 || !known[binding.Namespace+"/"+binding.RoleRef.Name] {
			t.Errorf("%s: %v", binding.Name, errs)
		}
	}
}

// TestSharedByControllers: the user of our controllers, and no one else, is added to bindings. It is bound
// to roles of controllers and to what Kubernetes binds it to, and each other subject is Kubernetes' own.
func TestSharedByControllers(t *testing.T) {
	const manager = "system:kube-controller-manager"
	own := []string{
		"/" + manager, "kube-system/system::extension-apiserver-authentication-reader",
		"kube-system/system::leader-locking-kube-controller-manager",
	}
	policy, seen := bootstraproles.Default(), 0
	check := func(name string, subjects []rbacv1.Subject) {
		_, base, _ := strings.Cut(name, "/")
		bound := slices.ContainsFunc(subjects, func(s rbacv1.Subject) bool { return s.Name == manager })
		shared := slices.Contains(bootstraproles.SharedByControllers(), name)
		if bound != (shared || slices.Contains(own, name)) {
			t.Errorf("%s: the user is bound: %t", name, bound)
		}
		if !shared {
			return
		}
		seen++
		account, ok := strings.CutPrefix(base, "system:controller:")
		if !ok || len(subjects) != 2 || !slices.Contains(subjects, rbacv1.Subject{Kind: "ServiceAccount", Namespace: "kube-system", Name: account}) {
			t.Errorf("%s binds %v, not the controller's service account and our user", name, subjects)
		}
	}
	for _, binding := range policy.ClusterRoleBindings {
		check("/"+binding.Name, binding.Subjects)
	}
	for _, binding := range policy.RoleBindings {
		check(binding.Namespace+"/"+binding.Name, binding.Subjects)
	}
	if want := len(bootstraproles.SharedByControllers()); seen != want {
		t.Errorf("found %d shared bindings of %d", seen, want)
	}
}

// fixed is a cache of objects that never change.
type fixed []scheme.Object

func (f fixed) CachedSince(view fabric.View, have feed.Version) ([]scheme.Object, feed.Version, bool) {
	now := feed.Version{Start: 1, Head: 1}
	var in []scheme.Object
	for _, obj := range f {
		if view.Namespace == "" || obj.GetNamespace() == view.Namespace {
			in = append(in, obj)
		}
	}
	return in, now, now != have
}

func objects[T scheme.Object](of []T) fixed {
	var all fixed
	for _, obj := range of {
		all = append(all, obj)
	}
	return all
}

// together aggregates roles, as the controller of aggregated roles does.
func together(roles []*rbacv1.ClusterRole) {
	for range 3 { // view is in edit is in admin.
		for _, role := range roles {
			if role.AggregationRule == nil {
				continue
			}
			role.Rules = nil
			for _, other := range roles {
				selector, err := metav1.LabelSelectorAsSelector(&role.AggregationRule.ClusterRoleSelectors[0])
				if err == nil && other != role && selector.Matches(labels.Set(other.Labels)) {
					role.Rules = append(role.Rules, other.Rules...)
				}
			}
		}
	}
}

// TestWhoMay checks what the policy allows users to do.
func TestWhoMay(t *testing.T) {
	policy := bootstraproles.Default()
	together(policy.ClusterRoles)
	for _, name := range []string{"admin", "edit", "view", "cluster-admin"} {
		policy.RoleBindings = append(policy.RoleBindings, &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
			Subjects:   []rbacv1.Subject{{Kind: "User", Name: name}},
		})
	}
	authorizer := rbac.New(rbac.Caches{
		Roles: objects(policy.Roles), RoleBindings: objects(policy.RoleBindings),
		ClusterRoles: objects(policy.ClusterRoles), ClusterRoleBindings: objects(policy.ClusterRoleBindings),
	})
	for c := range strings.SplitSeq(strings.TrimSpace(`
		anonymous                       may    get /livez /readyz /healthz /version
		anonymous                       maynot get /api /apis /openapi/v3 /metrics /livez/etcd /.well-known/openid-configuration
		anonymous                       maynot create authorization.k8s.io/selfsubjectaccessreviews
		somebody                        may    get /api /api/v1 /apis/apps /openapi/v3 /readyz
		somebody                        maynot get /metrics /debug/garboard/trace /
		somebody                        maynot post /api
		somebody                        may    create authorization.k8s.io/selfsubjectaccessreviews authorization.k8s.io/selfsubjectrulesreviews authentication.k8s.io/selfsubjectreviews
		somebody                        maynot create authorization.k8s.io/subjectaccessreviews authentication.k8s.io/tokenreviews
		somebody                        maynot list pods
		system:serviceaccount:x:y       may    get /openid/v1/jwks /.well-known/openid-configuration
		system:serviceaccount:x:y       may    list certificates.k8s.io/clustertrustbundles
		system:serviceaccount:x:y       maynot get ns:pods
		somebody                        maynot list certificates.k8s.io/clustertrustbundles
		monitor                         may    get /metrics /livez/etcd /flagz /statusz
		monitor                         maynot list nodes
		master                          may    escalate rbac.authorization.k8s.io/clusterroles
		master                          may    delete /anything
		view                            may    list ns:events.k8s.io/events ns:pods ns:configmaps ns:apps/deployments ns:events ns:pods/log ns:policy/poddisruptionbudgets ns:resourcequotas
		view                            maynot list ns:secrets ns:rbac.authorization.k8s.io/roles
		view                            maynot create ns:pods ns:pods/exec ns:serviceaccounts/token
		view                            maynot list pods other:pods
		edit                            may    create ns:events ns:events.k8s.io/events ns:pods ns:secrets ns:serviceaccounts/token ns:pods/eviction ns:apps/deployments ns:pods/exec
		edit                            may    get ns:secrets ns:pods ns:coordination.k8s.io/leases
		edit                            may    impersonate ns:serviceaccounts
		edit                            maynot create ns:rbac.authorization.k8s.io/rolebindings ns:resourcequotas ns:limitranges ns:endpoints
		edit                            maynot update ns:pods/status ns:namespaces
		admin                           may    create ns:rbac.authorization.k8s.io/rolebindings ns:rbac.authorization.k8s.io/roles ns:pods ns:authorization.k8s.io/localsubjectaccessreviews
		admin                           maynot create ns:resourcequotas ns:rbac.authorization.k8s.io/clusterroles
		admin                           maynot escalate ns:rbac.authorization.k8s.io/roles
		cluster-admin                   may    delete ns:resourcequotas ns:anything.at.all/things
		cluster-admin                   maynot delete nodes
		system:kube-scheduler           may    create ns:pods/binding kube-system:coordination.k8s.io/leases ns:events ns:events.k8s.io/events
		system:kube-scheduler           may    watch pods nodes namespaces services apps/replicasets policy/poddisruptionbudgets persistentvolumeclaims
		system:kube-scheduler           may    patch ns:pods/status
		system:kube-scheduler           may    update kube-system:coordination.k8s.io/leases
		system:kube-scheduler           maynot update ns:coordination.k8s.io/leases nodes ns:pods
		system:kube-scheduler           maynot list secrets
		system:kube-scheduler           maynot create ns:pods
		system:kube-controller-manager  may    list secrets any.group/things
		system:kube-controller-manager  may    delete ns:pods namespaces any.group/things kube-system:secrets
		system:kube-controller-manager  may    update namespaces/finalize ns:apps/deployments/status ns:apps/replicasets/status resourcequotas/status ns:policy/poddisruptionbudgets/status certificates.k8s.io/certificatesigningrequests/approval
		system:kube-controller-manager  may    create ns:pods ns:configmaps ns:serviceaccounts ns:apps/replicasets authorization.k8s.io/subjectaccessreviews
		system:kube-controller-manager  may    escalate rbac.authorization.k8s.io/clusterroles
		system:kube-controller-manager  may    update kube-system:coordination.k8s.io/leases kube-public:configmaps
		system:kube-controller-manager  maynot create ns:rbac.authorization.k8s.io/rolebindings rbac.authorization.k8s.io/clusterrolebindings ns:pods/exec
		system:kube-controller-manager  maynot get /metrics /debug/garboard/trace
		system:kube-proxy               may    watch services discovery.k8s.io/endpointslices
		system:kube-proxy               maynot watch pods
		system:node:n1                  maynot get pods nodes secrets
		system:serviceaccount:kube-system:deployment-controller may    update ns:apps/deployments/status
		system:serviceaccount:kube-system:deployment-controller maynot update ns:apps/statefulsets/status
		system:serviceaccount:kube-system:token-cleaner         may    delete kube-system:secrets
		system:serviceaccount:kube-system:token-cleaner         maynot delete ns:secrets
		system:serviceaccount:kube-system:bootstrap-signer      may    update kube-public:configmaps#cluster-info
		system:serviceaccount:kube-system:bootstrap-signer      maynot update kube-public:configmaps#other
	`), "\n") {
		words := strings.Fields(c)
		user := authn.User{Name: words[0], Groups: []string{authn.GroupAuthenticated}}
		switch {
		case words[0] == "anonymous":
			user = authn.User{Name: authn.Anonymous, Groups: []string{authn.GroupUnauthenticated}}
		case words[0] == "monitor":
			user.Groups = append(user.Groups, "system:monitoring")
		case words[0] == "master":
			user.Groups = append(user.Groups, authn.GroupMasters)
		case strings.HasPrefix(words[0], "system:serviceaccount:"):
			user.Groups = append(user.Groups, authn.GroupServiceAccounts)
		case strings.HasPrefix(words[0], authn.NodePrefix):
			user.Groups = append(user.Groups, authn.GroupNodes)
		}
		for _, target := range words[3:] {
			a := authz.Attributes{Verb: words[2]}
			if strings.HasPrefix(target, "/") {
				a.Path = target
			} else {
				if namespace, rest, ok := strings.Cut(target, ":"); ok {
					a.Namespace, target = namespace, rest
				}
				target, a.Name, _ = strings.Cut(target, "#")
				parts := strings.Split(target, "/")
				if strings.Contains(parts[0], ".") || parts[0] == "apps" || parts[0] == "policy" {
					a.Group, parts = parts[0], parts[1:]
				}
				a.Resource = parts[0]
				if len(parts) > 1 {
					a.Subresource = parts[1]
				}
			}
			decision, _, err := authorizer.Authorize(t.Context(), user, a)
			if want := words[1] == "may"; (decision == authz.Allow) != want || err != nil {
				t.Errorf("%s %s: got %v, %v on %+v", words[0], words[1], decision, err, a)
			}
		}
	}
}
