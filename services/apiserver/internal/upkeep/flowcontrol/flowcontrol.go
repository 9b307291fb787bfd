// Package flowcontrol defines the flow schemas and priority levels that Kubernetes always has: the
// mandatory ones, whose content is fixed, and the suggested ones. They are stored and served, but
// nothing acts on them yet: package filters limits the requests in flight by a fixed rule.
package flowcontrol

import (
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Mandatory returns the specs of the mandatory schemas and levels, by name.
func Mandatory() (map[string]*flowcontrolv1.FlowSchemaSpec, map[string]*flowcontrolv1.PriorityLevelConfigurationSpec) {
	schemas := map[string]*flowcontrolv1.FlowSchemaSpec{}
	for _, s := range []*flowcontrolv1.FlowSchema{exempt(), catchAll()} {
		schemas[s.Name] = &s.Spec
	}
	levels := map[string]*flowcontrolv1.PriorityLevelConfigurationSpec{}
	for _, l := range PriorityLevels()[:2] {
		levels[l.Name] = &l.Spec
	}
	return schemas, levels
}

// PriorityLevels returns the mandatory levels, then the suggested ones.
func PriorityLevels() []*flowcontrolv1.PriorityLevelConfiguration {
	return []*flowcontrolv1.PriorityLevelConfiguration{
		level(flowcontrolv1.PriorityLevelConfigurationNameExempt, flowcontrolv1.PriorityLevelConfigurationSpec{
			Type: flowcontrolv1.PriorityLevelEnablementExempt,
			Exempt: &flowcontrolv1.ExemptPriorityLevelConfiguration{
				NominalConcurrencyShares: new(int32(0)), LendablePercent: new(int32(0)),
			},
		}),
		level(flowcontrolv1.PriorityLevelConfigurationNameCatchAll, flowcontrolv1.PriorityLevelConfigurationSpec{
			Type: flowcontrolv1.PriorityLevelEnablementLimited,
			Limited: &flowcontrolv1.LimitedPriorityLevelConfiguration{
				NominalConcurrencyShares: new(int32(5)), LendablePercent: new(int32(0)),
				LimitResponse: flowcontrolv1.LimitResponse{Type: flowcontrolv1.LimitResponseTypeReject},
			},
		}),
		queuing("system", 30, 33, 64, 6),
		queuing("node-high", 40, 25, 64, 6),
		queuing("leader-election", 10, 0, 16, 4),
		queuing("workload-high", 40, 50, 128, 6),
		queuing("workload-low", 100, 90, 128, 6),
		queuing("global-default", 20, 50, 128, 6),
	}
}

func queuing(name string, shares, lendable, queues, hand int32) *flowcontrolv1.PriorityLevelConfiguration {
	return level(name, flowcontrolv1.PriorityLevelConfigurationSpec{
		Type: flowcontrolv1.PriorityLevelEnablementLimited,
		Limited: &flowcontrolv1.LimitedPriorityLevelConfiguration{
			NominalConcurrencyShares: &shares, LendablePercent: &lendable,
			LimitResponse: flowcontrolv1.LimitResponse{
				Type:    flowcontrolv1.LimitResponseTypeQueue,
				Queuing: &flowcontrolv1.QueuingConfiguration{Queues: queues, HandSize: hand, QueueLengthLimit: 50},
			},
		},
	})
}

func level(name string, spec flowcontrolv1.PriorityLevelConfigurationSpec) *flowcontrolv1.PriorityLevelConfiguration {
	return &flowcontrolv1.PriorityLevelConfiguration{ObjectMeta: meta(name), Spec: spec}
}

// meta marks an object to be kept up to date unless a user changes the mark.
func meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: name, Annotations: map[string]string{flowcontrolv1.AutoUpdateAnnotationKey: "true"}}
}

// FlowSchemas returns the mandatory schemas, then the suggested ones.
func FlowSchemas() []*flowcontrolv1.FlowSchema {
	controllers, scheduler := user("system:kube-controller-manager"), user("system:kube-scheduler")
	return []*flowcontrolv1.FlowSchema{
		exempt(), catchAll(),
		schema("probes", "exempt", 2, "", flowcontrolv1.PolicyRulesWithSubjects{
			Subjects: everybody(),
			NonResourceRules: []flowcontrolv1.NonResourcePolicyRule{
				{Verbs: []string{"get"}, NonResourceURLs: []string{"/healthz", "/readyz", "/livez"}},
			},
		}),
		schema("system-leader-election", "leader-election", 100, flowcontrolv1.FlowDistinguisherMethodByUserType, flowcontrolv1.PolicyRulesWithSubjects{
			Subjects:      []flowcontrolv1.Subject{controllers, scheduler, systemAccounts()},
			ResourceRules: []flowcontrolv1.ResourcePolicyRule{rule([]string{"get", "create", "update"}, "coordination.k8s.io", false, "leases")},
		}),
		schema("system-node-high", "node-high", 400, flowcontrolv1.FlowDistinguisherMethodByUserType, flowcontrolv1.PolicyRulesWithSubjects{
			Subjects: []flowcontrolv1.Subject{group("system:nodes")},
			ResourceRules: []flowcontrolv1.ResourcePolicyRule{
				rule([]string{"*"}, "", true, "nodes", "nodes/status"), rule([]string{"*"}, "coordination.k8s.io", false, "leases"),
			},
		}),
		all("system-nodes", "system", 500, flowcontrolv1.FlowDistinguisherMethodByUserType, group("system:nodes")),
		all("kube-controller-manager", "workload-high", 800, flowcontrolv1.FlowDistinguisherMethodByNamespaceType, controllers),
		all("kube-scheduler", "workload-high", 800, flowcontrolv1.FlowDistinguisherMethodByNamespaceType, scheduler),
		all("kube-system-service-accounts", "workload-high", 900, flowcontrolv1.FlowDistinguisherMethodByNamespaceType, systemAccounts()),
		all("service-accounts", "workload-low", 9000, flowcontrolv1.FlowDistinguisherMethodByUserType, group("system:serviceaccounts")),
		all("global-default", "global-default", 9900, flowcontrolv1.FlowDistinguisherMethodByUserType, everybody()...),
	}
}

func exempt() *flowcontrolv1.FlowSchema {
	return all(flowcontrolv1.FlowSchemaNameExempt, flowcontrolv1.PriorityLevelConfigurationNameExempt, 1, "", group("system:masters"))
}

func catchAll() *flowcontrolv1.FlowSchema {
	return all(flowcontrolv1.FlowSchemaNameCatchAll, flowcontrolv1.PriorityLevelConfigurationNameCatchAll, 10000,
		flowcontrolv1.FlowDistinguisherMethodByUserType, everybody()...)
}

// all returns a schema that matches all requests of some subjects.
func all(name, level string, precedence int32, by flowcontrolv1.FlowDistinguisherMethodType, subjects ...flowcontrolv1.Subject) *flowcontrolv1.FlowSchema {
	return schema(name, level, precedence, by, flowcontrolv1.PolicyRulesWithSubjects{
		Subjects:         subjects,
		ResourceRules:    []flowcontrolv1.ResourcePolicyRule{rule([]string{"*"}, "*", true, "*")},
		NonResourceRules: []flowcontrolv1.NonResourcePolicyRule{{Verbs: []string{"*"}, NonResourceURLs: []string{"*"}}},
	})
}

func schema(name, level string, precedence int32, by flowcontrolv1.FlowDistinguisherMethodType, rules flowcontrolv1.PolicyRulesWithSubjects) *flowcontrolv1.FlowSchema {
	s := &flowcontrolv1.FlowSchema{ObjectMeta: meta(name), Spec: flowcontrolv1.FlowSchemaSpec{
		PriorityLevelConfiguration: flowcontrolv1.PriorityLevelConfigurationReference{Name: level},
		MatchingPrecedence:         precedence, Rules: []flowcontrolv1.PolicyRulesWithSubjects{rules},
	}}
	if by != "" {
		s.Spec.DistinguisherMethod = &flowcontrolv1.FlowDistinguisherMethod{Type: by}
	}
	return s
}

func rule(verbs []string, apiGroup string, cluster bool, resources ...string) flowcontrolv1.ResourcePolicyRule {
	return flowcontrolv1.ResourcePolicyRule{
		Verbs: verbs, APIGroups: []string{apiGroup}, Resources: resources, Namespaces: []string{"*"}, ClusterScope: cluster,
	}
}

func everybody() []flowcontrolv1.Subject {
	return []flowcontrolv1.Subject{group("system:unauthenticated"), group("system:authenticated")}
}

func group(name string) flowcontrolv1.Subject {
	return flowcontrolv1.Subject{Kind: flowcontrolv1.SubjectKindGroup, Group: &flowcontrolv1.GroupSubject{Name: name}}
}

func user(name string) flowcontrolv1.Subject {
	return flowcontrolv1.Subject{Kind: flowcontrolv1.SubjectKindUser, User: &flowcontrolv1.UserSubject{Name: name}}
}

func systemAccounts() flowcontrolv1.Subject {
	return flowcontrolv1.Subject{
		Kind:           flowcontrolv1.SubjectKindServiceAccount,
		ServiceAccount: &flowcontrolv1.ServiceAccountSubject{Namespace: metav1.NamespaceSystem, Name: "*"},
	}
}
