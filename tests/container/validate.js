// Says what is wrong with objects of Kubernetes and KEDA, by the schemas that kubernetes-models has compiled: a line for each value of a wrong type, each
// field that is missing, and each field at which a schema never looks. The objects come as JSON on standard input; NODE_PATH has the modules.
"use strict";

// The value, which notes in seen (path -> looked at?) each field that is read.
function watched(value, path, seen) {
    if (value === null || typeof value !== "object")
        return value;
    const copy = Array.isArray(value) ? [] : {};
    for (const key of Object.keys(value)) {
        copy[key] = watched(value[key], `${path}.${key}`, seen);
        if (!Array.isArray(value))
            seen.set(`${path}.${key}`, false);
    }
    const look = (key) => seen.has(`${path}.${key}`) && seen.set(`${path}.${key}`, true);
    return new Proxy(copy, {
        get(target, key) {
            look(String(key));
            return target[key];
        },
        ownKeys(target) {      // a map: any key is right
            Object.keys(target).forEach(look);
            return Reflect.ownKeys(target);
        },
    });
}

for (const object of JSON.parse(require("fs").readFileSync(0))) {
    const [version, group = ""] = object.apiVersion.split("/").reverse();
    const folder = group.endsWith("keda.sh") ? `@kubernetes-models/keda/${group}` : group ? `kubernetes-models/${group}` : "kubernetes-models";
    const Model = require(`${folder}/${version}`)[object.kind], seen = new Map();
    try {
        Model.prototype.validate.call(watched(object, object.kind, seen));
    } catch (error) {
        console.log(`${object.kind}: ${error.message}`);
    }
    for (const [path, looked] of seen)
        if (!looked)
            console.log(`${path}: not in the schema`);
}
