package chart_test

import (
	"maps"
	"regexp"
	"testing"

	"helm.sh/helm/v3/pkg/strvals"
)

// refused maps invalid values, in the form of --set, to the error that Helm must report.
var refused = map[string]string{
	// Unknown values.
	"replicas=3":                            `additional properties 'replicas' not allowed`,
	"apiserver.replica=3":                   `at '/apiserver': additional properties 'replica' not allowed`,
	"apiserver.image.name=x":                `at '/apiserver/image': additional properties 'name' not allowed`,
	"etcd.autoscaling.enabled=true":         `at '/etcd': additional properties 'autoscaling' not allowed`,
	"nats.serviceMonitor.enabled=true":      `at '/nats': additional properties 'serviceMonitor' not allowed`,
	"nodes.replicas=3":                      `at '/nodes': additional properties 'replicas' not allowed`,
	"scheduler.affinity.nodes=x":            `at '/scheduler/affinity': additional properties 'nodes' not allowed`,
	"scheduler.tolerations[0].keys=x":       `at '/scheduler/tolerations/0': additional properties 'keys' not allowed`,
	"nats.podSecurityContext.runAs=1":       `at '/nats/podSecurityContext': additional properties 'runAs' not allowed`,
	"controllers.networkPolicy.from[0].a=b": `at '/controllers/networkPolicy': additional properties 'from' not allowed`,
	"prometheusRule.rules[0].alert=x":       `at '/prometheusRule': additional properties 'rules' not allowed`,
	"dashboards.label.a=b":                  `at '/dashboards': additional properties 'label' not allowed`,
	// Wrong types.
	"apiserver.replicas=many":                                  `at '/apiserver/replicas': got string, want integer`,
	"apiserver.replicas=-1":                                    `at '/apiserver/replicas': minimum: got -1, want 0`,
	"apiserver.replicas=null":                                  `at '/apiserver': missing property 'replicas'`,
	"apiserver.podDisruptionBudget.enabled=yes":                `at '/apiserver/podDisruptionBudget/enabled': got string, want boolean`,
	"commonLabels.team=5":                                      `at '/commonLabels/team': got number, want string`,
	"apiserver.resources.limits.memory=true":                   `at '/apiserver/resources/limits/memory': got boolean, want (string or number|number or string)`,
	"apiserver.extraVolumes[0].emptyDir=x":                     `at '/apiserver/extraVolumes/0': missing property 'name'`,
	"apiserver.extraEnv[0].value=x":                            `at '/apiserver/extraEnv/0': missing property 'name'`,
	"apiserver.topologySpreadConstraints[0].whenUnsatisfied=x": `additional properties 'whenUnsatisfied' not allowed`,
	"prometheusRule.enabled=yes":                               `at '/prometheusRule/enabled': got string, want boolean`,
	"prometheusRule.disabledAlerts=GarboardRestarts":           `at '/prometheusRule/disabledAlerts': got string, want array`,
	"dashboards.labels.grafana_dashboard=1":                    `at '/dashboards/labels/grafana_dashboard': got number, want string`,
	// Invalid values.
	"tls.mode=selfSigned":                              `at '/tls/mode': value must be one of 'generated', 'certManager', 'existingSecret'`,
	"logging.level=trace":                              `at '/logging/level': value must be one of 'debug', 'info', 'warn', 'error'`,
	"image.pullPolicy=Sometimes":                       `at '/image/pullPolicy': value must be one of 'Always', 'IfNotPresent', 'Never'`,
	"etcd.mode=embedded":                               `at '/etcd/mode': value must be one of 'builtin', 'external'`,
	"etcd.replicas=2":                                  `at '/etcd/replicas': value must be one of 1, 3, 5`,
	"nats.replicas=4":                                  `at '/nats/replicas': value must be one of 1, 3, 5`,
	"nodes.runtime.mode=docker":                        `at '/nodes/runtime/mode': value must be one of 'builtin', 'hostPath', 'simulated'`,
	"apiserver.podAntiAffinity=required":               `at '/apiserver/podAntiAffinity': value must be one of 'soft', 'hard', 'none'`,
	"apiserver.service.type=ExternalName":              `at '/apiserver/service/type': value must be one of 'ClusterIP', 'NodePort', 'LoadBalancer'`,
	"apiserver.image.digest=sha256:12":                 `at '/apiserver/image/digest': 'sha256:12' does not match pattern`,
	"apiserver.image.repository=Garboard/x":            `at '/apiserver/image/repository': 'Garboard/x' does not match pattern`,
	"apiserver.shutdownDelayDuration=10 seconds":       `at '/apiserver/shutdownDelayDuration': '10 seconds' does not match pattern`,
	"apiserver.serviceClusterIPRange=10.96.0.0":        `at '/apiserver/serviceClusterIPRange': '10.96.0.0' does not match pattern`,
	"apiserver.extraArgs[0]=log-level=debug":           `at '/apiserver/extraArgs/0': 'log-level=debug' does not match pattern`,
	"apiserver.service.port=70000":                     `at '/apiserver/service/port': maximum: got 70,?000, want 65,?535`,
	"apiserver.podDisruptionBudget.maxUnavailable=10x": `at '/apiserver/podDisruptionBudget/maxUnavailable': '10x' does not match pattern`,
	"tls.hosts[0]=https://api.example.com":             `at '/tls/hosts/0': 'https://api.example.com' does not match pattern`,
	"etcd.quotaBackendBytes=1":                         `at '/etcd/quotaBackendBytes': minimum: got 1, want`,
	"etcd.persistence.size=ten":                        `at '/etcd/persistence/size': 'ten' does not match pattern`,
	"nats.maxFileStore=4Gi":                            `at '/nats/maxFileStore': '4Gi' does not match pattern`,
	"nodes.dataDir=var/lib":                            `at '/nodes/dataDir': 'var/lib' does not match pattern`,
	"nodes.labels.a=b c":                               `at '/nodes/labels/a': 'b c' does not match pattern`,
	"fullnameOverride=My_Plane":                        `at '/fullnameOverride': 'My_Plane' does not match pattern`,
	"prometheusRule.labels.release=a b":                `at '/prometheusRule/labels/release': 'a b' does not match pattern`,
	"prometheusRule.disabledAlerts[0]=KubePodCrash":    `at '/prometheusRule/disabledAlerts/0': 'KubePodCrash' does not match pattern`,
	"dashboards.annotations.a b=c":                     `invalid propertyName 'a b'`,
	"prometheusRule.enabled=true,prometheusRule.disabledAlerts[0]=GarboardRestart": `prometheusRule.disabledAlerts: there is no alert GarboardRestart$`,
	"prometheusRule.disabledAlerts={GarboardRestarts,GarboardRestarts}":            `at '/prometheusRule/disabledAlerts': items at 0 and 1 are equal`,
	// Mutually exclusive values.
	"tls.mode=existingSecret":                                         `at '/tls/existingSecretPrefix': minLength: got 0, want 1`,
	"tls.existingSecretPrefix=own":                                    `at '/tls/existingSecretPrefix': maxLength: got 3, want 0`,
	"tls.certManager.issuerRef.name=own":                              `at '/tls/certManager/issuerRef/name': maxLength: got 3, want 0`,
	"etcd.mode=external":                                              `(?s)at '/etcd/external/endpoints': minItems: got 0, want 1.*|at '/etcd/external/existingSecret': minLength: got 0, want 1`,
	"etcd.mode=external,etcd.external.endpoints[0]=https://etcd:2379": `at '/etcd/external/existingSecret': minLength: got 0, want 1`,
	"etcd.mode=external,etcd.external.endpoints[0]=http://etcd:2379,etcd.external.existingSecret=a": `at '/etcd/external/endpoints/0': 'http://etcd:2379' does not match pattern`,
	"etcd.external.existingSecret=own":                                                         `at '/etcd/external/existingSecret': maxLength: got 3, want 0`,
	"nats.mode=external,nats.external.existingSecret=a":                                        `at '/nats/external/urls': minItems: got 0, want 1`,
	"nats.mode=external,nats.external.existingSecret=a,nats.external.urls[0]=nats://nats:4222": `at '/nats/external/urls/0': 'nats://nats:4222' does not match pattern`,
	"nats.replicas=1":                        `at '/nats/logReplicas': value must be 1`,
	"nats.logReplicas=5":                     `at '/nats/logReplicas': value must be one of 1, 3`,
	"nodes.runtime.mode=hostPath":            `at '/nodes/runtime/hostPath': minLength: got 0, want 1`,
	"nodes.runtime.hostPath=/run/containerd": `at '/nodes/runtime/hostPath': maxLength: got 15, want 0`,
	"apiserver.podDisruptionBudget.minAvailable=1,apiserver.podDisruptionBudget.maxUnavailable=1": `at '/apiserver/podDisruptionBudget': 'anyOf' failed`,
	"apiserver.service.nodePort=30000":                                                          `at '/apiserver/service/nodePort': value must be 0`,
	"apiserver.service.loadBalancerSourceRanges[0]=10.0.0.0/8":                                  `at '/apiserver/service/loadBalancerSourceRanges': maxItems: got 1, want 0`,
	"scheduler.autoscaling.enabled=true,scheduler.autoscaling.targetCPUUtilizationPercentage=0": `at '/scheduler/autoscaling/targetMemoryUtilizationPercentage': minimum: got 0, want 1`,
	"controllers.split={a}":                                                                     `at '/controllers/split/0': got string, want object`,
	"controllers.split[0].name=a":                                                               `at '/controllers/split/0': missing property 'controllers'`,
	"controllers.split[0].name=A,controllers.split[0].controllers={x}":                          `at '/controllers/split/0/name': 'A' does not match pattern`,
	"controllers.split[0].name=a,controllers.split[0].controllers={-x}":                         `at '/controllers/split/0/controllers/0': '-x' does not match pattern`,
	"controllers.split[0].name=a,controllers.split[0].controllers={x},controllers.split[1].name=b,controllers.split[1].controllers={x}": `controllers.split: x is in two Deployments$`,
	"controllers.split[0].name=a,controllers.split[0].controllers={x},controllers.split[1].name=a,controllers.split[1].controllers={y}": `controllers.split: there are two Deployments a$`,
	"controllers.split[0].name=a,controllers.split[0].controllers={x},controllers.autoscaling.enabled=true":                             `at '/controllers/autoscaling/enabled': value must be false`,
	"apiserver.autoscaling.enabled=true,apiserver.autoscaling.minReplicas=7":                                                            `apiserver.autoscaling: minReplicas, 7, is more than maxReplicas, 5`,
	"tls.mode=certManager,apiserver.serviceClusterIPRange=fd00:1::5/108":                                                                `apiserver.serviceClusterIPRange: fd00:1::5/108 does not end with ::`,
}

// TestRefused checks that the chart refuses invalid values.
func TestRefused(t *testing.T) {
	for set := range maps.Keys(refused) {
		t.Run(set, func(t *testing.T) {
			given, err := strvals.Parse(set)
			if err != nil {
				t.Fatal(err)
			}
			_, err = render(t, given)
			if err == nil {
				t.Fatal("the values were accepted")
			}
			if !regexp.MustCompile(refused[set]).MatchString(err.Error()) {
				t.Errorf("got the error\n%v\nwant one that matches %s", err, refused[set])
			}
		})
	}
}
