package flowcontrol

import (
	"testing"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"

	"github.com/garboard/garboard/services/apiserver/internal/kinds/validation/errortest"
	"github.com/garboard/garboard/services/apiserver/internal/upkeep/flowcontrol"
)

func TestFlowSchema(t *testing.T) {
	type schema = *flowcontrolv1.FlowSchema
	newSchema := func() schema {
		return &flowcontrolv1.FlowSchema{ObjectMeta: meta("x"), Spec: flowcontrolv1.FlowSchemaSpec{
			MatchingPrecedence:         50,
			PriorityLevelConfiguration: flowcontrolv1.PriorityLevelConfigurationReference{Name: "low"},
			Rules: []flowcontrolv1.PolicyRulesWithSubjects{{
				Subjects:         []flowcontrolv1.Subject{{Kind: "User", User: &flowcontrolv1.UserSubject{Name: "ann"}}},
				ResourceRules:    []flowcontrolv1.ResourcePolicyRule{{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"pods"}, Namespaces: []string{"*"}}},
				NonResourceRules: []flowcontrolv1.NonResourcePolicyRule{{Verbs: []string{"*"}, NonResourceURLs: []string{"/healthz/*", "/"}}},
			}},
		}}
	}
	subject := func(subject flowcontrolv1.Subject) func(schema) {
		return func(s schema) { s.Spec.Rules[0].Subjects[0] = subject }
	}
	user, group, account := &flowcontrolv1.UserSubject{}, &flowcontrolv1.GroupSubject{}, &flowcontrolv1.ServiceAccountSubject{Name: "*", Namespace: "ns"}
	for name, tc := range map[string]struct {
		change func(schema)
		want   []string
	}{
		"fine":               {change: func(schema) {}},
		"no precedence":      {change: func(s schema) { s.Spec.MatchingPrecedence = 0 }, want: []string{"spec.matchingPrecedence: Invalid value: 0: must be a positive value"}},
		"a high precedence":  {change: func(s schema) { s.Spec.MatchingPrecedence = 10001 }, want: []string{"spec.matchingPrecedence: Invalid value: 10001: must not be greater than 10000"}},
		"the first":          {change: func(s schema) { s.Spec.MatchingPrecedence = 1 }, want: []string{"spec.matchingPrecedence: Invalid value: 1: only the schema named 'exempt' may have matchingPrecedence 1"}},
		"an unknown method":  {change: func(s schema) { s.Spec.DistinguisherMethod = &flowcontrolv1.FlowDistinguisherMethod{Type: "Odd"} }, want: []string{`spec.distinguisherMethod.type: Unsupported value: {"type":"Odd"}: supported values: "ByNamespace", "ByUser"`}},
		"no level":           {change: func(s schema) { s.Spec.PriorityLevelConfiguration.Name = "" }, want: []string{"spec.priorityLevelConfiguration.name: Required value: must reference a priority level"}},
		"a bad level":        {change: func(s schema) { s.Spec.PriorityLevelConfiguration.Name = "A" }, want: []string{`spec.priorityLevelConfiguration.name: Invalid value: "A": ` + badSubdomain}},
		"an empty rule":      {change: func(s schema) { s.Spec.Rules[0] = flowcontrolv1.PolicyRulesWithSubjects{} }, want: []string{"spec.rules[0].subjects: Required value: subjects must contain at least one value", "spec.rules[0]: Required value: at least one of resourceRules and nonResourceRules has to be non-empty"}},
		"an unknown subject": {change: subject(flowcontrolv1.Subject{Kind: "Odd"}), want: []string{`spec.rules[0].subjects[0].kind: Unsupported value: "Odd": supported values: "Group", "ServiceAccount", "User"`}},
		"no user":            {change: subject(flowcontrolv1.Subject{Kind: "User"}), want: []string{"spec.rules[0].subjects[0].user: Required value: user is required when subject kind is 'User'"}},
		"a user and more":    {change: subject(flowcontrolv1.Subject{Kind: "User", User: user, Group: group, ServiceAccount: account}), want: []string{"spec.rules[0].subjects[0].user.name: Required value", "spec.rules[0].subjects[0].serviceAccount: Forbidden: serviceAccount is forbidden when subject kind is not 'ServiceAccount'", "spec.rules[0].subjects[0].group: Forbidden: group is forbidden when subject kind is not 'Group'"}},
		"no group":           {change: subject(flowcontrolv1.Subject{Kind: "Group"}), want: []string{"spec.rules[0].subjects[0].group: Required value: group is required when subject kind is 'Group'"}},
		"a group and a user": {change: subject(flowcontrolv1.Subject{Kind: "Group", Group: group, User: user}), want: []string{"spec.rules[0].subjects[0].group.name: Required value", "spec.rules[0].subjects[0].user: Forbidden: user is forbidden when subject kind is not 'User'"}},
		"no account":         {change: subject(flowcontrolv1.Subject{Kind: "ServiceAccount"}), want: []string{"spec.rules[0].subjects[0].serviceAccount: Required value: serviceAccount is required when subject kind is 'ServiceAccount'"}},
		"all accounts":       {change: subject(flowcontrolv1.Subject{Kind: "ServiceAccount", ServiceAccount: account})},
		"an empty account":   {change: subject(flowcontrolv1.Subject{Kind: "ServiceAccount", ServiceAccount: &flowcontrolv1.ServiceAccountSubject{}}), want: []string{"spec.rules[0].subjects[0].serviceAccount.name: Required value", "spec.rules[0].subjects[0].serviceAccount.namespace: Required value: must specify namespace for service account"}},
		"a bad account":      {change: subject(flowcontrolv1.Subject{Kind: "ServiceAccount", ServiceAccount: &flowcontrolv1.ServiceAccountSubject{Name: "A", Namespace: "B"}}), want: []string{`spec.rules[0].subjects[0].serviceAccount.name: Invalid value: "A": ` + badSubdomain, `spec.rules[0].subjects[0].serviceAccount.namespace: Invalid value: "B": ` + badLabel}},
		"an empty resource":  {change: func(s schema) { s.Spec.Rules[0].ResourceRules[0] = flowcontrolv1.ResourcePolicyRule{} }, want: []string{"spec.rules[0].resourceRules[0].verbs: Required value: verbs must contain at least one value", "spec.rules[0].resourceRules[0].apiGroups: Required value: resource rules must supply at least one api group", "spec.rules[0].resourceRules[0].resources: Required value: resource rules must supply at least one resource", "spec.rules[0].resourceRules[0].namespaces: Required value: resource rules that are not cluster scoped must supply at least one namespace"}},
		"all and more": {change: func(s schema) {
			all := []string{"*", "x"}
			s.Spec.Rules[0].ResourceRules[0] = flowcontrolv1.ResourcePolicyRule{Verbs: all, APIGroups: all, Resources: all, Namespaces: all}
		}, want: []string{`spec.rules[0].resourceRules[0].verbs: Invalid value: ["*","x"]: if '*' is present, must not specify other verbs`, `spec.rules[0].resourceRules[0].apiGroups: Invalid value: ["*","x"]: if '*' is present, must not specify other api groups`, `spec.rules[0].resourceRules[0].resources: Invalid value: ["*","x"]: if '*' is present, must not specify other resources`, `spec.rules[0].resourceRules[0].namespaces: Invalid value: ["*","x"]: if '*' is present, must not specify other namespaces`}},
		"a bad verb":        {change: func(s schema) { s.Spec.Rules[0].ResourceRules[0].Verbs = []string{"get", "fly"} }, want: []string{`spec.rules[0].resourceRules[0].verbs: Unsupported value: ["get","fly"]: supported values: "create", "delete", "deletecollection", "get", "list", "patch", "proxy", "update", "watch"`}},
		"a bad namespace":   {change: func(s schema) { s.Spec.Rules[0].ResourceRules[0].Namespaces = []string{"A"} }, want: []string{`spec.rules[0].resourceRules[0].namespaces[0]: Invalid value: "A": each member of this list must be '*' or a DNS-1123 label; ` + badLabel}},
		"no URLs":           {change: func(s schema) { s.Spec.Rules[0].NonResourceRules[0].NonResourceURLs = nil }, want: []string{"spec.rules[0].nonResourceRules[0].nonResourceURLs: Required value: nonResourceURLs must contain at least one value"}},
		"all URLs and more": {change: func(s schema) { s.Spec.Rules[0].NonResourceRules[0].NonResourceURLs = []string{"*", "/"} }, want: []string{`spec.rules[0].nonResourceRules[0].nonResourceURLs: Invalid value: ["*","/"]: if '*' is present, must not specify other non-resource URLs`}},
		"bad URLs": {change: func(s schema) {
			s.Spec.Rules[0].NonResourceRules[0].NonResourceURLs = []string{"", "x", "/a b", "//", "/a*", "/*/*"}
		}, want: []string{`spec.rules[0].nonResourceRules[0].nonResourceURLs[0]: Invalid value: "": must not be empty`, `spec.rules[0].nonResourceRules[0].nonResourceURLs[1]: Invalid value: "x": must start with slash`, `spec.rules[0].nonResourceRules[0].nonResourceURLs[2]: Invalid value: "/a b": must not contain white-space`, `spec.rules[0].nonResourceRules[0].nonResourceURLs[3]: Invalid value: "//": must not contain double slash`, `spec.rules[0].nonResourceRules[0].nonResourceURLs[4]: Invalid value: "/a*": wildcard can only do suffix matching`, `spec.rules[0].nonResourceRules[0].nonResourceURLs[5]: Invalid value: "/*/*": wildcard can only do suffix matching`}},
		"conditions": {change: func(s schema) {
			s.Status.Conditions = []flowcontrolv1.FlowSchemaCondition{{Type: "a"}, {Type: "a"}, {}}
		}, want: []string{`status.conditions[1].type: Duplicate value: "a"`, "status.conditions[2].type: Required value"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSchema()
			tc.change(s)
			errortest.Exactly(t, validateFlowSchema(s), tc.want...)
			errortest.Exactly(t, validateFlowSchemaUpdate(s, s), tc.want...)
		})
	}
	for _, s := range flowcontrol.FlowSchemas() {
		before := s.DeepCopy()
		defaultFlowSchema(s)
		if errortest.Exactly(t, validateFlowSchema(s)); before.Spec.MatchingPrecedence != s.Spec.MatchingPrecedence {
			t.Errorf("setting the defaults changed %s", s.Name)
		}
	}
	fixed := flowcontrol.FlowSchemas()[0]
	fixed.Spec.MatchingPrecedence = 2
	errortest.Contain(t, validateFlowSchema(fixed), "spec: Invalid value: ", "spec of 'exempt' must equal the fixed value")
}
