// A picture lying on its side, laid out by ELK in a worker: left to right, with room for the labels.
const OPTIONS = {
  "elk.algorithm": "layered", "elk.direction": "RIGHT", "elk.edgeRouting": "ORTHOGONAL", "elk.hierarchyHandling": "INCLUDE_CHILDREN",
  "elk.layered.cycleBreaking.strategy": "MODEL_ORDER", "elk.layered.considerModelOrder.strategy": "NODES_AND_EDGES",
  "elk.layered.nodePlacement.strategy": "NETWORK_SIMPLEX", "elk.spacing.nodeNode": "34", "elk.layered.spacing.nodeNodeBetweenLayers": "46",
  "elk.spacing.edgeNode": "16", "elk.spacing.edgeEdge": "12", "elk.layered.spacing.edgeNodeBetweenLayers": "16", "elk.spacing.edgeLabel": "6",
  "elk.padding": "[top=34,left=4,bottom=4,right=4]",
};

let worker = null;
let number = 0;
const asked = new Map();

function ask(message) {
  if (!worker) {
    worker = new Worker(new URL("./vendor/elk-worker.js", import.meta.url));
    worker.onmessage = ({ data }) => {
      const { resolve, reject } = asked.get(data.id) || {};
      asked.delete(data.id);
      if (data.error) reject?.(new Error(String(data.error.message || data.error))); else resolve?.(data.data);
    };
    worker.onerror = (event) => { for (const { reject } of asked.values()) reject(new Error(event.message)); asked.clear(); };
    ask({ cmd: "register", algorithms: ["layered"] }).catch(() => {});
  }
  return new Promise((resolve, reject) => {
    const id = ++number;
    asked.set(id, { resolve, reject });
    worker.postMessage({ ...message, id });
  });
}

/** The same picture with other places. */
export async function sideways(graph) {
  const asGraph = {
    id: "machine", layoutOptions: OPTIONS,
    children: graph.nodes.map((node, at) => ({ id: `n${at}`, width: node.box.width, height: node.box.height })),
    edges: graph.edges.map((edge, at) => ({
      id: `e${at}`, sources: [`n${graph.nodes.findIndex((node) => node.id === edge.source)}`], targets: [`n${graph.nodes.findIndex((node) => node.id === edge.target)}`],
      labels: edge.label_box ? [{ text: edge.labels.map((label) => label.text).join("\n"), width: edge.label_box.width, height: edge.label_box.height, layoutOptions: { "elk.edgeLabels.placement": "CENTER" } }] : [],
    })),
  };
  const made = await ask({ cmd: "layout", graph: asGraph, layoutOptions: {}, options: {} });
  const boxes = new Map(made.children.map((node) => [node.id, { x: node.x, y: node.y, width: node.width, height: node.height }]));
  const ways = new Map(made.edges.map((edge) => [edge.id, edge]));
  return {
    digest: graph.digest, machine: graph.machine, width: made.width, height: made.height,
    nodes: graph.nodes.map((node, at) => ({ ...node, box: boxes.get(`n${at}`) })),
    edges: graph.edges.map((edge, at) => {
      const way = ways.get(`e${at}`);
      const section = way.sections?.[0];
      const points = section ? [section.startPoint, ...(section.bendPoints || []), section.endPoint].map((point) => [point.x, point.y]) : [];
      const label = way.labels?.[0];
      return { ...edge, points, label_box: label ? { x: label.x, y: label.y, width: label.width, height: label.height } : null };
    }),
  };
}
