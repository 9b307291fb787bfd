// Package flowcontrol defines the kinds of flowcontrol.apiserver.k8s.io: FlowSchemas and priority levels.
package flowcontrol
